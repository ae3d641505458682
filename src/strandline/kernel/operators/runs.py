"""The matches that have begun and are not complete, of one key: moved from event to event, many at once.

A *run* begins with an event. It may go on in several ways (*threads*), which stand in the order in which they are preferred; the
future of a thread depends on its `Place` alone, so of two at one place the first is enough. Runs whose threads stand at the
same places, a *profile*, move alike: an event moves each profile once, however many runs have it, and a run is touched only
when it takes the event. So an event costs what it changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from strandline.model.patterns import Pattern


class Place(NamedTuple):
    """Where a thread stands: at a step, with so many of its events.

    `direct` says that the last event of the key is its last one, where that matters; `wall` is the first absent step whose event
    has come since: what is behind it cannot be reached from here.
    """

    at: int
    many: int
    direct: bool
    wall: int


Profile: TypeAlias = tuple[Place, ...]
Node: TypeAlias = tuple[Any, int, int]
"""An event that a thread took: the node before it or None, the event's number, and its step."""


class Run(NamedTuple):
    """What began with one event: its time and number, and the last node of each thread."""

    start: int
    number: int
    nodes: tuple[Node, ...]


class Move(NamedTuple):
    """What an event does to a profile: the one after it, or, `done`, the thread and the step with which runs are complete.

    Of each thread after it, `threads` has the one that it comes from, and the step that took the event (None: passed by).
    """

    profile: Profile
    threads: tuple[tuple[int, int | None], ...]
    done: tuple[int, int] | None
    still: bool  # every thread stays as it is, though perhaps at another place
    takes: bool


class Machine:
    """A pattern as moves of profiles by events; an event is the set of steps that it fits, as bits."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.steps = pattern, pattern.steps
        self.none = len(self.steps)  # no wall
        self.waits = self.steps[-1].negated  # complete only when its time is over
        self.absent = [at for at, each in enumerate(self.steps) if each.negated]
        self.following = [self._following(at) for at in range(-1, len(self.steps))]
        self.moves: dict[tuple[Profile, int], Move] = {}
        self.beginnings: dict[int, Move] = {}

    def move(self, profile: Profile, fits: int) -> Move:
        """What an event does to runs of a profile."""
        found = self.moves.get((profile, fits))
        if found is None:
            if len(self.moves) > 100_000:
                self.moves.clear()
            found = self.moves[profile, fits] = self._move(profile, fits)
        return found

    def begin(self, fits: int) -> Move:
        """What begins with an event."""
        found = self.beginnings.get(fits)
        if found is None:
            taken = [(-1, step, 1) for step in self.following[0] if fits >> step & 1]
            found = self.beginnings[fits] = self._after(taken)
        return found

    def final(self, profile: Profile) -> int | None:
        """The thread with which a run is complete when its time is over."""
        if not self.waits:
            return None
        return next((at for at, each in enumerate(profile) if self._complete(each) and each.wall == self.none), None)

    def _move(self, profile: Profile, fits: int) -> Move:
        found: list[tuple[int, int | None, Any]] = []
        for source, place in enumerate(profile):
            at, many, direct, wall = place
            step = self.steps[at]
            if many < step.high and fits >> at & 1 and (direct or not step.adjoining):
                found.append((source, at, many + 1))
            if many >= step.low:
                wall = min([wall, *(each for each in self.absent if each > at and fits >> each & 1)])
                ahead = (each for each in self.following[at + 1] if each < wall and fits >> each & 1)
                found += [(source, each, 1) for each in ahead if direct or not self.steps[each].strict]
            found.append((source, None, Place(at, many, False, wall)))
        return self._after(found, profile)

    def _after(self, found: Sequence[tuple[int, Any, Any]], before: Profile = ()) -> Move:
        """The threads in order: the first that is complete ends the run, and of two at one place the first stays."""
        threads: dict[Place, tuple[int, int | None]] = {}
        for source, step, rest in found:
            place = rest if step is None else Place(step, rest, True, self.none)
            if step is not None and not self.waits and self._complete(place):
                return Move((), (), (source, step), still=False, takes=True)
            if self._lives(place):
                threads.setdefault(self._bare(place), (source, step))
        kept = tuple(threads.values())
        still = kept == tuple((at, None) for at in range(len(before)))
        return Move(tuple(threads), kept, None, still=still, takes=any(step is not None for _, step in kept))

    def _complete(self, place: Place) -> bool:
        rest = self.steps[place.at + 1 :]
        return place.many >= self.steps[place.at].low and all(each.negated or each.skippable for each in rest)

    def _lives(self, place: Place) -> bool:
        """Whether anything can still come of a thread."""
        step = self.steps[place.at]
        if place.many < step.high and (place.direct or not step.adjoining):
            return True
        if place.many < step.low:
            return False
        ahead = (each for each in self.following[place.at + 1] if each < place.wall)
        if any(place.direct or not self.steps[each].strict for each in ahead):
            return True
        return self.waits and place.wall == self.none and self._complete(place)

    def _bare(self, place: Place) -> Place:
        """A place without what does not matter there, so that alike ones are equal."""
        step = self.steps[place.at]
        leaves = place.many >= step.low
        ahead = [each for each in self.following[place.at + 1] if each < place.wall] if leaves else []
        strict = any(self.steps[each].strict for each in ahead) or (step.adjoining and place.many < step.high)
        return place._replace(direct=place.direct and strict)

    def _following(self, at: int) -> list[int]:
        """The steps that may come after one: the next that is not absent, and those behind optional ones."""
        found = []
        for place in range(at + 1, len(self.steps)):
            if not self.steps[place].negated:
                found.append(place)
                if not self.steps[place].skippable:
                    break
        return found


class Match(NamedTuple):
    """A match: its events by number with their steps, and the time at which it is known."""

    taken: list[tuple[int, int]]
    known: int


class Runs:
    """The runs of a key by their profile, in order of their beginnings, and the events that they have taken, by number."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.within = machine, int(machine.pattern.within)
        self.past_last = machine.pattern.skip == "past_last"
        self.groups: dict[Profile, list[Run]] = {}
        self.events: dict[int, tuple[int, Any]] = {}
        self.next = 0
        self.changed = False

    def take(self, time: int, fits: int, event: Any) -> list[Match]:
        """Hand an event over: what is complete with it."""
        number, used = self.next, False
        groups: dict[Profile, list[Run]] = {}
        done: list[tuple[int, Node]] = []
        for profile, runs in self.groups.items():
            move = self.machine.move(profile, fits)
            used = used or move.takes
            if move.done is not None:
                source, step = move.done
                done += [(run.number, (run.nodes[source], number, step)) for run in runs]
                continue
            self.changed = self.changed or move.profile != profile or not move.still
            if move.profile:
                moved = runs if move.still else [self._moved(run, move, number) for run in runs]
                self._join(groups, move.profile, moved)
        begun = self.machine.begin(fits)
        if begun.takes and not (done and self.past_last):
            used = self.changed = True
            if begun.done is not None:
                done.append((number, (None, number, begun.done[1])))
            else:
                nodes = tuple((None, number, step) for _, step in begun.threads)
                self._join(groups, begun.profile, [Run(time, number, nodes)])  # type: ignore[arg-type]
        if used:
            self.events[number], self.next = (time, event), number + 1
        if done:
            self.changed = True
            done = [min(done, key=_number)] if self.past_last else sorted(done, key=_number)
            groups = {} if self.past_last else groups
        self.groups = groups
        return [Match(self.taken(node), time) for _, node in done]

    def expire(self, time: int) -> list[Match]:
        """Time has come to here: what is complete because nothing came, in order of beginnings; the rest is forgotten."""
        over: list[tuple[int, int, Node | None]] = []
        for profile, runs in self.groups.items():
            count = bisect_left(runs, time - self.within, key=_start) if runs[0].start + self.within < time else 0
            final = self.machine.final(profile) if count else None
            over += [(run.start, run.number, None if final is None else run.nodes[final]) for run in runs[:count]]
            del runs[:count]
        if not over:
            return []
        self.changed, last, told = True, -1, []
        for start, number, node in sorted(over, key=lambda each: each[:2]):
            if node is not None and (number > last or not self.past_last):
                told.append(Match(self.taken(node), start + self.within + 1))
                last = node[1]
        kept = ((profile, self._behind(runs, last)) for profile, runs in self.groups.items())
        self.groups = {profile: runs for profile, runs in kept if runs}
        return told

    def _behind(self, runs: list[Run], last: int) -> list[Run]:
        return [run for run in runs if run.number > last] if self.past_last and last >= 0 else runs

    def _moved(self, run: Run, move: Move, number: int) -> Run:
        nodes = tuple(
            run.nodes[source] if step is None else (run.nodes[source], number, step) for source, step in move.threads
        )
        return Run(run.start, run.number, nodes)

    def _join(self, groups: dict[Profile, list[Run]], profile: Profile, runs: list[Run]) -> None:
        mine = groups.setdefault(profile, runs)
        if mine is not runs:
            ordered = mine[-1][:2] < runs[0][:2]
            mine += runs
            if not ordered:
                mine.sort(key=lambda run: run[:2])

    def taken(self, node: Node | None) -> list[tuple[int, int]]:
        """The events of a thread in their order, by number, each with its step."""
        found = []
        while node is not None:
            node, number, step = node
            found.append((number, step))
        return found[::-1]

    def threads(self) -> Iterator[tuple[Place, Node]]:
        """All threads, by the beginnings of their runs and as they are preferred."""
        whole = sorted(
            ((run, profile) for profile, runs in self.groups.items() for run in runs), key=lambda each: each[0].number
        )
        for run, profile in whole:
            yield from zip(profile, run.nodes, strict=True)

    def restore(self, threads: Sequence[tuple[Place, Node]]) -> None:
        """Take up threads as they were told; their events must be there."""
        found: dict[int, list[tuple[Place, Node]]] = {}
        for place, node in threads:
            found.setdefault(self.taken(node)[0][0], []).append((place, node))
        runs: dict[Profile, list[Run]] = {}
        for number, mine in found.items():
            profile = tuple(place for place, _ in mine)
            runs.setdefault(profile, []).append(Run(self.events[number][0], number, tuple(node for _, node in mine)))
        self.groups = {profile: sorted(each, key=lambda run: run[:2]) for profile, each in runs.items()}

    @property
    def over(self) -> int | None:
        """When the time of the first run is over."""
        return min((runs[0].start for runs in self.groups.values()), default=None)


def _start(run: Run) -> int:
    return run.start


def _number(each: tuple[int, Node]) -> int:
    return each[0]

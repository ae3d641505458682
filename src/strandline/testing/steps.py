"""What a test does to a flow, step by step.

Each step is one tick:

    Events(rows)         events arrive                      ProcessingTime(t)   the clock moves
    Watermark(t)         the source's watermark moves       Tick(...)           all of these at once
    Crash()              the last tick is made again, from state that went through bytes

A tick's events are judged by the watermark before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from strandline.errors import StrandlineError, TranscriptError, did_you_mean
from strandline.model.time import Instant

Row: TypeAlias = Mapping[str, Any]
When: TypeAlias = str | datetime | int


@dataclass(frozen=True, slots=True, init=False)
class Events:
    """Events arrive in one partition, and are judged by the watermark so far.

    With `policy=True` the source's own policy then moves the watermark, in the same tick. Where a flow has several
    sources, `source` names one.

    >>> Events([{"user": "ann"}], partition=1).partition
    1
    """

    rows: tuple[Row, ...]
    partition: int
    policy: bool
    source: str | None

    def __init__(
        self, rows: Sequence[Row], partition: int = 0, policy: bool = False, source: str | None = None
    ) -> None:
        if isinstance(rows, Mapping) or not isinstance(rows, Sequence):
            raise TranscriptError(f"Events takes a list of rows, not {rows!r}.", fix="Write Events([{...}, {...}]).")
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise TranscriptError(f"partition={partition!r} is no partition.", fix="Number partitions from 0.")
        if not isinstance(policy, bool):
            raise TranscriptError(
                f"policy={policy!r} is neither True nor False.", fix="Write policy=True, or leave it out."
            )
        _require_source(source)
        values = (("rows", tuple(rows)), ("partition", partition), ("policy", policy), ("source", source))
        for name, value in values:
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, init=False)
class Watermark:
    """The watermark of the source moves to an instant; of several sources that of one, or of all if none is named.

    >>> Watermark("2026-01-01T12:00:00Z")
    Watermark(time=Instant('2026-01-01T12:00:00Z'), source=None)
    """

    time: Instant
    source: str | None

    def __init__(self, time: When, source: str | None = None) -> None:
        _require_source(source)
        object.__setattr__(self, "time", _instant("Watermark", time))
        object.__setattr__(self, "source", source)


@dataclass(frozen=True, slots=True, init=False)
class ProcessingTime:
    """The clock moves to an instant. Before the first one it stands at 1970-01-01."""

    time: Instant

    def __init__(self, time: When) -> None:
        object.__setattr__(self, "time", _instant("ProcessingTime", time))


@dataclass(frozen=True, slots=True, init=False)
class Tick:
    """Events, watermark and clock in one tick. `events` is a list of rows, an Events, or several for several partitions.

    `watermark` is an instant for every source, or a mapping from sources to instants.

    >>> Tick(events=[{"user": "ann"}], watermark=0).events
    (Events(rows=({'user': 'ann'},), partition=0, policy=False, source=None),)
    """

    events: tuple[Events, ...]
    watermark: Instant | Mapping[str, Instant] | None
    processing_time: Instant | None

    def __init__(
        self,
        events: Events | Sequence[Row] | Sequence[Events] = (),
        watermark: When | Mapping[str, When] | None = None,
        processing_time: When | None = None,
    ) -> None:
        after = _watermarks(watermark)
        now = None if processing_time is None else _instant("Tick(processing_time=)", processing_time)
        for name, value in (("events", _several(events)), ("watermark", after), ("processing_time", now)):
            object.__setattr__(self, name, value)

    @property
    def reached(self) -> Instant | None:
        """Where the watermark goes, in the part of a tick that concerns one source."""
        assert not isinstance(self.watermark, Mapping), "Tick.of has chosen one"
        return self.watermark

    @property
    def policy(self) -> bool:
        """Whether the source's own policy moves the watermark in this tick."""
        return any(part.policy for part in self.events)

    def of(self, source: str, known: Collection[str], place: str) -> Tick:
        """The part of this tick that concerns one of the known sources."""
        named = [
            *(part.source for part in self.events),
            *(self.watermark if isinstance(self.watermark, Mapping) else ()),
        ]
        for name in named:
            if name is not None and name not in known:
                raise TranscriptError(f"{place} names the source {name!r}.", fix=did_you_mean(name, known))
        if len(known) > 1 and any(part.source is None and part.rows for part in self.events):
            raise TranscriptError(
                f"{place} does not say which source its events come from.",
                fix=f"Write Events([...], source={min(known)!r}).",
            )
        after = self.watermark.get(source) if isinstance(self.watermark, Mapping) else self.watermark
        return Tick([part for part in self.events if part.source in (None, source)], after, self.processing_time)


@dataclass(frozen=True, slots=True)
class Crash:
    """The last tick is made again from the state before it, encoded and decoded: same bytes, same panes, or an error."""


Step: TypeAlias = Events | Watermark | ProcessingTime | Tick | Crash


def as_tick(step: Step) -> Tick:
    """The tick that a step is short for.

    >>> as_tick(Watermark(0)) == Tick(watermark=0)
    True
    """
    if isinstance(step, Tick):
        return step
    if isinstance(step, Events):
        return Tick(events=step)
    if isinstance(step, Watermark):
        return Tick(watermark=step.time if step.source is None else {step.source: step.time})
    if isinstance(step, ProcessingTime):
        return Tick(processing_time=step.time)
    raise TranscriptError(
        f"{step!r} is no step.", fix="Give Events([...]), Watermark(t), ProcessingTime(t), Tick(...) or Crash()."
    )


def named(steps: Iterable[Step]) -> Iterator[tuple[str, Step]]:
    """Each step with what an error calls it: the tick that it is, or that is made again after a crash."""
    number = 0
    for step in steps:
        number += not isinstance(step, Crash)
        yield f"Tick {number}", step


def _require_source(source: object) -> None:
    if not isinstance(source, str | None):
        raise TranscriptError(
            f"source={source!r} is no name.", fix="Name the source as text, as flow.source(...) does."
        )


def _watermarks(given: When | Mapping[str, When] | None) -> Instant | Mapping[str, Instant] | None:
    if isinstance(given, Mapping):
        return {name: _instant(f"Tick(watermark=) of {name!r}", at) for name, at in given.items()}
    return None if given is None else _instant("Tick(watermark=)", given)


def _several(events: Events | Sequence[Row] | Sequence[Events]) -> tuple[Events, ...]:
    if isinstance(events, Events):
        return (events,)
    if not isinstance(events, Sequence):
        raise TranscriptError(f"Tick takes a list of rows, not {events!r}.", fix="Write Tick(events=[{...}]).")
    parts = tuple(part for part in events if isinstance(part, Events))
    if len(parts) == len(events):
        return parts
    if parts:
        raise TranscriptError("Rows and Events are mixed in one Tick.", fix="Wrap the rows: Events([...]).")
    return (Events(events),)  # type: ignore[arg-type]  # what is not Events is rows; play checks them


def _instant(owner: str, value: When) -> Instant:
    try:
        return Instant.of(value)
    except StrandlineError as error:
        raise TranscriptError(f"{owner}: {error.what}", fix=error.fix) from None

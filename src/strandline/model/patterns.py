"""Patterns: events of a key that follow each other, in event-time order.

    sl.sequence(sl.step("fail", "not success").times(3).consecutive(), within="10m")
    sl.sequence(sl.step("look", "kind = 'look'"), sl.absent("buy", "kind = 'buy'"), within="1h")

A step follows the one before it, with any events between them; `sl.next` follows it directly. An absent step is an event
that must not come between the steps before and after it that are there, or, as the last one, before the time is over.
`sequence` says which match is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from strandline.errors import DescriptionError, told
from strandline.model.expressions import parse, require_text
from strandline.model.time import Span

Skip = Literal["past_last", "to_next"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a pattern: how many events of its kind, and how they stand to each other and to those before."""

    name: str
    condition: str
    strict: bool = False
    low: int = 1
    high: int = 1
    adjoining: bool = False
    skippable: bool = False
    negated: bool = False

    def times(self, low: int, high: int | None = None) -> Step:
        """So many events, or so many to so many; the last step is complete with the least number."""
        most = low if high is None else high
        if (
            not all(isinstance(each, int) and not isinstance(each, bool) for each in (low, most))
            or not 1 <= low <= most
        ):
            raise DescriptionError(
                f"times({low!r}, {high!r}) of step {self.name!r} is no number of events.",
                fix="Write .times(3), or .times(2, 5).",
            )
        return self._positive(low=low, high=most)

    def consecutive(self) -> Step:
        """Its events follow each other directly."""
        return self._positive(adjoining=True)

    def optional(self) -> Step:
        """It may be left out."""
        return self._positive(skippable=True)

    def _positive(self, **changes: Any) -> Step:
        if self.negated:
            raise DescriptionError(
                f"The absent step {self.name!r} has no events to count.", fix="Leave it at sl.absent(name, condition)."
            )
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Steps that follow each other, the last event at most `within` after the first."""

    steps: tuple[Step, ...]
    within: Span
    skip: Skip


def step(name: str, condition: str) -> Step:
    """An event for which the condition (Spark SQL) is true, some time after the step before it."""
    return _step(name, condition)


def followed_by(name: str, condition: str) -> Step:
    """The same as `step`, for those who like to read it: some time after the step before it, whatever comes between."""
    return _step(name, condition)


def next(name: str, condition: str) -> Step:  # noqa: A001 - sl.next reads as what it is
    """The same, right after the step before it: no other event of the key comes between."""
    return replace(_step(name, condition), strict=True)


def absent(name: str, condition: str) -> Step:
    """No such event behind the step before it, up to the step after it; as the last one, none before the time is over.

    Where the step before or after is optional and is left out, the next one that is there counts. An event that must not come
    cannot be taken for the step after it.
    """
    return replace(_step(name, condition), negated=True)


def _step(name: str, condition: str) -> Step:
    if not isinstance(name, str) or not name:
        raise DescriptionError(f"{told(name)} is no name of a step.", fix="Write sl.step('fail', 'not success').")
    parse(require_text(f"The step {name!r}", condition))
    return Step(name=name, condition=condition)


def sequence(*steps: Step, within: str | timedelta | Span | None = None, skip: Skip = "past_last") -> Pattern:
    """Steps in their order, for the events of a key in event-time order; events of one moment stand as they came.

    **What is a match.** Events, one behind the other, that fit the steps: each step as often as it says, or not at all if it is
    optional. Other events may stand between them, but not before a step that is `next`, nor between the events of one that
    is `consecutive`. The last event comes at most `within` after the first; what must not come is waited for as long.

    **Which one is told.** Of all matches that begin with an event, one: that which is complete first. So the last step takes
    its least number of events, and nothing is missed that a regular expression over the key's events would find. If several
    are complete with the same event, or when the time is over: the one that rather takes an event than passes it by, and rather
    for the step at which it is than for the next one.

    **What comes after it.** skip="past_last": no match begins before, or with, the last event of one that was told.
    skip="to_next": every event may begin a match, with events of others too. Matches are told in the order in which they are
    complete, and those complete at once in the order of their beginnings.

    >>> three = sequence(step("fail", "not success").times(3).consecutive(), within="10m")  # F S F F: none; F F F: one
    >>> three.skip
    'past_last'
    """
    if within is None:
        raise DescriptionError(
            "A sequence without within= would wait for its last step for ever.",
            fix="Give the time of a whole match: within='10m'.",
        )
    span = Span.of(within)
    names = [each.name for each in steps if isinstance(each, Step)]
    if len(names) != len(steps) or not steps:
        wrong = next_wrong(steps)
        raise DescriptionError(
            f"A sequence is made of steps, not {told(wrong)}.",
            fix="Write sl.sequence(sl.step('a', '...'), ..., within='10m').",
        )
    if len({*names}) < len(names):
        raise DescriptionError(f"Two steps of a sequence have one name: {', '.join(names)}.", fix="Give each its own.")
    if span <= 0:
        raise DescriptionError(
            f"within={span.text!r} is not positive.", fix="Give the time of a whole match: within='10m'."
        )
    if skip not in get_args(Skip):
        raise DescriptionError(
            f"skip={told(skip)} is not known.", fix=f"Give one of {', '.join(map(repr, get_args(Skip)))}."
        )
    if all(each.negated or each.skippable for each in steps) or steps[0].negated:
        raise DescriptionError(
            "A sequence needs a step that is there, and does not begin with one that is absent.",
            fix="Begin with sl.step(...), and let at least one step not be optional.",
        )
    if steps[-1].skippable:
        raise DescriptionError(
            f"The step {steps[-1].name!r} would never be taken: a match is complete without it, and is told at once.",
            fix="Leave it out; or end with sl.absent(...), so that it is waited for.",
        )
    if steps[0].strict:
        raise DescriptionError("The first step follows nothing.", fix="Begin with sl.step(...), not with sl.next(...).")
    return Pattern(steps=steps, within=span, skip=skip)


def next_wrong(steps: tuple[object, ...]) -> object:
    """The first of these that is no step; None where there is none at all."""
    return [*(each for each in steps if not isinstance(each, Step)), None][0]

"""Patterns: events of a key that follow each other, in event-time order.

    sl.sequence(sl.step("fail", "not success").times(3).consecutive(), within="10m")
    sl.sequence(sl.step("look", "kind = 'look'"), sl.absent("buy", "kind = 'buy'"), within="1h")

A step follows the one before it, with any events between them; `sl.next` follows it directly. An absent step is an event
that must not come between its neighbours, or, as the last one, before the time of the pattern is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from strandline.errors import DescriptionError, told
from strandline.model.expressions import parse, require_text
from strandline.model.time import Span

Skip = Literal["past_last", "to_next", "none"]


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
        """So many events, or as many as come of so many to so many; the last step is complete with the least number."""
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


def next(name: str, condition: str) -> Step:  # noqa: A001 - sl.next reads as what it is
    """The same, right after the step before it: no other event of the key comes between."""
    return replace(_step(name, condition), strict=True)


def absent(name: str, condition: str) -> Step:
    """No such event between the steps before and after it; as the last one, none before the time is over."""
    return replace(_step(name, condition), negated=True)


def _step(name: str, condition: str) -> Step:
    if not isinstance(name, str) or not name:
        raise DescriptionError(f"{told(name)} is no name of a step.", fix="Write sl.step('fail', 'not success').")
    parse(require_text(f"The step {name!r}", condition))
    return Step(name=name, condition=condition)


def sequence(*steps: Step, within: str | timedelta | Span, skip: Skip = "past_last") -> Pattern:
    """Steps in their order. After a match `skip` says which others may still come of events that are in it.

    "past_last": none that began before its end; "to_next": none that began with its first event; "none": all.
    """
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
    if steps[0].strict:
        raise DescriptionError("The first step follows nothing.", fix="Begin with sl.step(...), not with sl.next(...).")
    return Pattern(steps=steps, within=span, skip=skip)


def next_wrong(steps: tuple[object, ...]) -> object:
    """The first of these that is no step; None where there is none at all."""
    return [*(each for each in steps if not isinstance(each, Step)), None][0]

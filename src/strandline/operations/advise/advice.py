"""All that a sample says: bound, lateness and ttl for the rate of late events that is wanted, and what else to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from strandline.errors import DescriptionError
from strandline.model.time import Instant, Span
from strandline.operations.advise.behind import behind, behind_own
from strandline.operations.advise.choosing import Bar, Behind, late_by_stretch, next_step, spread, written
from strandline.operations.advise.keys import Keys, keys_of
from strandline.operations.advise.sample import Sample, Times
from strandline.operations.said import plural

ENOUGH: Final = 10
"""So many late events there must be for their share to mean something."""

STRETCHES: Final = 10
DROPPED: Final = 0.01
"""Of the events that are late, this share may be later than the lateness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A bound or a lateness, how many events it leaves out, and which share of all they are."""

    span: Span
    events: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPartition:
    """One partition: quantiles (p50, p95, p99, greatest) of how far its events lag, and the share of them that are late.

    `ends` is how much of the sample lies behind its last event: then it held the watermark, and so nothing was late.
    """

    name: str
    events: int
    lags: tuple[Span, ...]
    late: float
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a sample says. `late` is what the bound leaves late, `between` the shares that chance alone would allow.

    `given`: the bound was chosen by somebody else, and need not keep to the rate.
    """

    events: int
    rejected: int
    first: Instant
    last: Instant
    measured: str
    rate: float
    bound: Span
    given: bool
    late: Choice
    between: tuple[float, float]
    stretches: tuple[float, ...]
    lateness: Span
    dropped: Choice
    picture: tuple[Bar, ...]
    bounds: tuple[Choice, ...]
    latenesses: tuple[Choice, ...]
    partitions: tuple[OfPartition, ...]
    keys: Keys | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: spans and instants are whole microseconds, shares are from 0 to 1."""
        return asdict(self)


def advise(
    sample: Sample,
    *,
    rate: float,
    batch_interval: Span | None = None,
    bound: Span | None = None,
    buckets: int = 64,
) -> Advice:
    """The least bound that makes at most this rate of the sample's events late, rounded; then lateness and ttl for it.

    `bound` is one that was chosen already: then all is said of that.

    >>> chance = np.random.default_rng(1)
    >>> times = np.arange(10_000) * 100_000 - chance.integers(0, 5_000_000, 10_000)
    >>> found = advise(Sample.of(times), rate=0.01)
    >>> found.bound.text, found.late.share
    ('4s400ms', 0.0088)
    """
    if not 0 < rate < 1:
        raise DescriptionError(f"A rate of {rate} is no share.", fix="Give one between 0 and 1, such as 0.01.")
    each = behind(sample, batch_interval=batch_interval)
    ordered = Behind.of(each)
    chosen = ordered.bound(rate) if bound is None else bound
    partitions = tuple(_partitions(sample, each, chosen))
    return conclude(
        ordered, chosen, rate, given=bound is not None, rejected=sample.rejected, first=Instant(sample.times.min()),
        last=Instant(sample.times.max()), measured="order" if sample.arrivals is None else "arrival",
        stretches=tuple(late_by_stretch(each, chosen, stretches=STRETCHES)), partitions=partitions,
        keys=keys_of(sample, rate=rate, buckets=buckets), notes=tuple(_notes(sample, partitions)),
    )  # fmt: skip


def conclude(
    ordered: Behind,
    bound: Span,
    rate: float,
    *,
    given: bool,
    first: Instant,
    last: Instant,
    measured: str,
    rejected: int,
    stretches: tuple[float, ...],
    partitions: tuple[OfPartition, ...],
    keys: Keys | None,
    notes: tuple[str, ...],
) -> Advice:
    """Lateness for the bound, what other choices would do, and what else is known."""
    lateness = _lateness(ordered, bound, rate)
    return Advice(
        events=len(ordered), rejected=rejected, first=first, last=last, measured=measured, rate=rate, bound=bound, given=given,
        late=_choice(ordered, bound, 0), between=spread(ordered.late(bound), len(ordered)), stretches=stretches,
        lateness=lateness, dropped=_choice(ordered, lateness, bound), picture=tuple(ordered.picture(bound)),
        bounds=tuple(_choice(ordered, span, 0) for span in ordered.candidates(bound)),
        latenesses=tuple(_choice(ordered, span, bound) for span in _latenesses(ordered, bound, lateness)),
        partitions=partitions, keys=keys, notes=(*notes, *_of_rate(ordered, rate, bound)),
    )  # fmt: skip


def _choice(ordered: Behind, span: Span, beyond: Span | int) -> Choice:
    events = ordered.late(span + beyond)
    return Choice(span=span, events=events, share=events / len(ordered))


def _lateness(ordered: Behind, bound: Span, rate: float) -> Span:
    """Whatever the windows: an event that is no further behind than bound and lateness together is in time for all of its own."""
    rest = ordered.least(rate * DROPPED) - bound
    return next_step(Span(rest)) if rest > 0 else Span(0)


def _latenesses(ordered: Behind, bound: Span, chosen: Span) -> list[Span]:
    rates = (0.5, 0.2, 0.1, 0.01, 0.001, 0)
    late = ordered.late(bound) / len(ordered)
    found = {next_step(Span(rest)) for each in rates if (rest := ordered.least(late * each) - bound) > 0}
    return sorted({Span(0), chosen, *found})


def _partitions(sample: Sample, each: Times, bound: Span) -> Iterator[OfPartition]:
    lags = behind_own(sample) if sample.arrivals is None else np.maximum(sample.arrivals - sample.times, 0)
    for name, mine in zip(sample.names, sample.of_each_partition(), strict=True):
        ordered = Behind.of(lags[mine])
        yield OfPartition(
            name=name, events=len(mine), lags=tuple(ordered.quantile(share) for share in (0.5, 0.95, 0.99, 1.0)),
            late=float((each[mine] > bound).mean()), ends=1 - (int(mine[-1]) + 1) / len(sample),
        )  # fmt: skip


def _notes(sample: Sample, partitions: tuple[OfPartition, ...]) -> Iterator[str]:
    """What must be known beside the numbers."""
    if sample.arrivals is None:
        yield (
            "Nothing says when the events arrived, only in which order: lags are behind the greatest time seen before, "
            "which is what a bound is judged by. How old events are when they arrive is not known; --arrival would say."
        )
    for each in partitions:
        if each.ends > max(0.1, 20 / each.events) and len(partitions) > 1:
            yield (
                f"The partition {each.name!r} brings nothing in the last {each.ends:.0%} of the sample, and holds the "
                "watermark back so long: nothing was late then. Leave it out, or give idle_after= and judge the others alone."
            )
    if sample.arrivals is not None and (early := float((sample.arrivals < sample.times).mean())):
        yield f"{early:.2%} of the events arrive before their own time: some clock is wrong, or the columns are."
    if sample.cut:
        yield f"No more was looked at than the first {plural(len(sample), 'event')}."


def _of_rate(ordered: Behind, rate: float, bound: Span) -> Iterator[str]:
    if rate * len(ordered) < ENOUGH:
        yield (
            f"To know a bound for {rate * 100:g}% late events takes more than {plural(len(ordered), 'event')}: "
            f"{round(ENOUGH / rate):,} to say something, and ten times as many to be sure."
        )
    if ordered.share(bound) > rate:
        yield f"This bound makes more than {rate * 100:g}% of the events late; {written(ordered.bound(rate))} would not."
    if bound and ordered.late(0) and ordered.share(0) <= rate:
        yield "Even without any bound there would be fewer late events."

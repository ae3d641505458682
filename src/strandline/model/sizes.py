"""How much a stage will remember: rows of state for a rate of events and a number of keys, with the sum in words.

These are bounds, not guesses: so many rows at most, if every partition keeps pace and no more keys are active. What a row
takes in bytes only the kernel can say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import Final

from strandline.model.firing import fires_once
from strandline.model.intervals import Interval
from strandline.model.keeping import lives_of
from strandline.model.latency import BATCH_INTERVAL, bound_of
from strandline.model.lengths import Length, length_of
from strandline.model.lineage import lateness_of, merging, windows_of
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    OverNode,
    ProcessNode,
    StageNode,
    Stateful,
    TableNode,
    origin_of,
)
from strandline.model.operator_words import longest_within
from strandline.model.process import kept_of
from strandline.model.time import Span
from strandline.model.windows import Global, Hopping, Window

SECOND: Final = 1_000_000
MOST_SLICES: Final = 16  # of one hop, for windows to be put together from them
UNMERGED: Final = 16  # ticks at most until rows that are over are merged away, where slices are long
SLICES: Final = 8  # rows are forgotten by slices, so many to the time that they live
SLICES_OF_DEDUPE: Final = 4
SLICE_OF_WINDOWS: Final = Span.of("1h")  # of a join by windows
RATE: Final = 20_000
KEYS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is assumed: events a second that come to each source, keys that are active, and the time between ticks."""

    rate: int = RATE
    keys: int = KEYS
    tick: Span = BATCH_INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """So many rows at most, None where nothing bounds them; the sum in words; and how many events make a row."""

    rows: int | None
    words: str
    events_per_row: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBytes:
    """What a row of state takes in bytes: `one` of a single event, and so much `more` for each further event in it.

    `times` is how often a row that every tick touches stands in the state until its segments are merged.

    >>> RowBytes(one=80.0, more=9.0).of(11)
    170.0
    """

    one: float
    more: float = 0.0
    times: float = 1.0

    def of(self, events: float) -> float:
        """The bytes of a row of so many events."""
        return self.one + self.more * (events - 1)


def size_in_words(size: Size, measured: RowBytes | None) -> list[str]:
    """The rows and the bytes of a state, as sentences.

    >>> size_in_words(Size(rows=1000, words="10 keys × 100 windows"), RowBytes(one=100.0, times=7.0))[1]
    'A row takes about 100 bytes, measured with rows that were made up; one that every tick touches stands up to 7 times there until segments are merged.'
    """
    if size.rows is None or not size.rows:
        return [f"{size.words}."]
    if measured is None:
        return [
            f"at most {_count(size.rows)}: {size.words}.",
            "How many bytes a row takes is not known before it runs.",
        ]
    each = measured.of(size.events_per_row)
    more = f" of one event, and {measured.more:,.0f} for each further one" if measured.more >= 1 else ""
    often = f"; one that every tick touches stands up to {measured.times:.0f} times there until segments are merged"
    told = f"about {measured.one:,.0f} bytes{more}, measured with rows that were made up{often if measured.times > 1 else ''}"
    return [f"at most {_count(size.rows)}, about {_bytes(size.rows * each)}: {size.words}.", f"A row takes {told}."]


def _count(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def size_of(node: Stateful, load: Load) -> Size:
    """The rows of state of a stage.

    >>> from strandline.model.aggregates import Count
    >>> from strandline.model.flow import Flow
    >>> from strandline.model.windows import Hopping
    >>> from strandline.sources.rows import Rows
    >>> clicks = Flow("f").source("clicks", Rows(schema="user string, at timestamp"), time="at")
    >>> stage = clicks.key_by("user").window(Hopping("10m", every="1m")).aggregate("n", clicks=Count())
    >>> size_of(stage.node, Load(rate=20_000, keys=1000)).rows
    11000
    """
    if isinstance(node, StageNode):
        return _of_windows(node, load)
    return _of_operator(node, load)


def _arriving(node: Stateful, load: Load) -> int:
    """How many rows a second come to a stage at most, as far as it is known: those of windows come once for each window."""
    origin = origin_of(node.parent)
    if not isinstance(origin, StageNode | OperatorNode):
        return load.rate
    before = _arriving(origin, load)
    length = length_of(windows_of(origin)) if isinstance(origin, StageNode) else None
    if length is None or not length.least:
        return before
    return min(before, max(1, _keys(origin, load) * SECOND // length.least))


def _keys(node: Stateful, load: Load) -> int:
    return load.keys if getattr(node, "keys", ()) else 1


def _of_windows(stage: StageNode, load: Load) -> Size:
    window, keys, rate = windows_of(stage), _keys(stage, load), _arriving(stage, load)
    lateness, bound = lateness_of(stage), bound_of(stage)
    length = length_of(window)
    if isinstance(window, Global):
        until = (
            "for ever" if window.ttl is None else f"for {Span(window.ttl + lateness + bound).text} after its last event"
        )
        return Size(rows=keys, words=f"one row for each of {keys:,} keys, {until}")
    if length is None:
        return Size(rows=None, words="nothing says how long a window may be")
    if merging(window):
        many = 1 + ceil((lateness + bound) / length.most) if length.most else 1
        return Size(
            rows=keys * many,
            words=f"{keys:,} keys × {many} session{'s' if many > 1 else ''} (the live one{_waiting(lateness, bound)})",
            events_per_row=max(1.0, rate * length.most / SECOND / keys),
        )
    step, span = _pieces(stage, window, length)
    here = min(keys, ceil(rate * span / SECOND))
    # One more than fit: a window begins while the oldest is still kept.
    many = ceil((length.most + lateness + bound) / step) + (1 if step < length.most or lateness or bound else 0)
    of = f"{here:,} keys" if here == keys else f"{here:,} keys that come in {span.text}"
    pieces = f"window{'s' if many > 1 else ''}" if span == length.most else f"slices of {step.text}"
    return Size(
        rows=here * many,
        words=f"{of} × {many:,} {pieces} ({length.text}{_waiting(lateness, bound)})",
        events_per_row=max(1.0, rate * span / SECOND / here),
    )


def _pieces(stage: StageNode, window: Window, length: Length) -> tuple[Span, Span]:
    """How far apart rows of state of a key are, and of how much time each holds the events.

    Hopping windows that are shown once are put together from slices; otherwise each has a row of its own.
    """
    if not isinstance(window, Hopping):
        return length.least, length.most
    slice_ = Span(gcd(window.size, window.every))
    once = fires_once(stage.trigger, lateness_of(stage)) and stage.timestamp == "end"
    return (slice_, slice_) if once and window.every <= MOST_SLICES * slice_ else (window.every, window.size)


def _waiting(lateness: Span, bound: Span) -> str:
    parts = [f"{lateness.text} of lateness"] if lateness else []
    parts += [f"{bound.text} of the bound"] if bound else []
    return "".join(f", {part}" for part in parts)


def _of_operator(node: OperatorNode, load: Load) -> Size:
    rate, bound, granted = _arriving(node, load), bound_of(node), lateness_of(node)
    if isinstance(node, LookupNode):
        return Size(rows=0, words="it remembers nothing")
    if isinstance(node, TableNode):
        return Size(rows=load.keys, words=f"one row for each of {load.keys:,} keys")
    if isinstance(node, JoinTableNode):
        return _of_a_table(node, load, rate, bound)
    if isinstance(node, ProcessNode):
        return _of_process(node, load, rate, bound)
    if isinstance(node, JoinNode):
        return _of_a_join(node, rate, Span(bound + granted))
    if isinstance(node, DedupeNode):
        slack = node.within // SLICES_OF_DEDUPE
        return _of_time(rate, Span(node.within + bound + slack), f"{_and_slack(slack)}, if no row repeats another")
    if isinstance(node, OverNode):
        slack = longest_within(node) // SLICES
        span = Span(longest_within(node) + granted + bound + slack)
        return _of_time(rate, span, f"the widest feature, the bound, {_and_slack(slack)}")
    assert isinstance(node, DetectNode), "every kind of operator is known"
    keys, waits = _keys(node, load), _unmerged(bound, load)
    events = f"up to {_rows(rate, node.pattern.within):,} events in all of which matches may be made"
    return Size(
        rows=keys + _rows(rate, waits),
        words=f"one row for each of {keys:,} keys, with {events}, and the rows of {waits.text}, which {_WAITING}",
    )


_WAITING: Final = "wait for the watermark or to be merged away"


def _unmerged(span: Span, load: Load) -> Span:
    """How long rows stand there that are needed for so long, where slices are long."""
    return Span(span + UNMERGED * load.tick)


def _and_slack(slack: int) -> str:
    return f"with {Span(slack).text} more, for rows are forgotten in slices"


def _of_a_table(node: JoinTableNode, load: Load, rate: int, bound: Span) -> Size:
    one = f"one row for each of {load.keys:,} keys of the table"
    if not node.as_of:
        return Size(rows=load.keys, words=one)
    changes, waits = (_unmerged(each, load) for each in (bound, node.max_wait or bound))
    return Size(
        rows=load.keys + _rows(rate, changes) + _rows(rate, waits),
        words=f"{one}, the changes of {changes.text} and the rows of {waits.text}, which {_WAITING}",
    )


def _of_a_join(node: JoinNode, rate: int, late: Span) -> Size:
    if isinstance(node.within, Interval):
        lives, slack = lives_of(node), Span((int(node.within.high) - int(node.within.low)) // SLICES)
    else:
        assert node.within.window is not None, "a join names its windows"
        length = length_of(node.within.window)
        assert length is not None, "windows of a join are of one size"
        lives, slack = (length.most, length.most), SLICE_OF_WINDOWS
    ours, theirs = (Span(max(int(each), 0) + late + slack) for each in lives)
    told = f"{ours.text} of rows of this side and {theirs.text} of rows of the other side"
    return Size(
        rows=_rows(rate, ours) + _rows(rate, theirs),
        words=f"{rate:,} rows a second × {told} ({_and_slack(slack)})",
    )


def _of_process(node: ProcessNode, load: Load, rate: int, bound: Span) -> Size:
    keys = _keys(node, load) if kept_of(node.process) else 0
    waits = _unmerged(bound, load)
    waiting = _rows(rate, waits) if node.order == "event_time" else 0
    until = "for ever" if node.ttl is None else f"for {node.ttl.span.text}"
    told = [f"one row for each of {keys:,} keys, {until}"] if keys else []
    told += [f"the rows of {waits.text}, which {_WAITING}"] if waiting else []
    return Size(rows=keys + waiting, words=" and ".join(told) or "it remembers nothing")


def _of_time(rate: int, span: Span, why: str) -> Size:
    return Size(rows=_rows(rate, span), words=f"{rate:,} rows a second × {span.text} ({why})")


def _rows(rate: int, span: Span) -> int:
    return ceil(rate * span / SECOND)

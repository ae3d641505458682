"""What is wrong with the rows: more of them dropped or rejected than is normal for the flow, or one key with too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from strandline.operations.health.finding import Finding
from strandline.operations.health.watched import KNOWN, Record, Watched, percent, share_of, span_of

FEW: Final = 10
"""So few rows are no burst."""
USUAL: Final = 0.01
"""What share may be dropped or rejected where no norm is known."""
TIMES: Final = 3
"""How many times the norm is too much."""
NEARLY_ALL: Final = 0.95
SOME: Final = 1_000
"""A key is not hot, nor a norm known, with fewer rows than these."""


def late_rows(watched: Watched) -> Iterator[Finding]:
    """More rows than normal are dropped: they came too late for every window."""
    for node in watched.nodes():
        if (shares := _too_many(watched, node, "late")) is not None:
            share, norm = shares
            where, part = _most(watched.recent, "behind")
            yield Finding(
                rule="late_rows", severity="warning", about=f"stage {node}",
                what=f"{percent(share)} of the rows of {node} are dropped, too late for every window; {percent(norm)} is normal.",
                cause=f"Most rows from behind the watermark came in partition {where}: {percent(part)} of them." if where
                else "The watermark runs ahead of them.",
                fix="See what delays that producer. If such rows should count, raise the watermark's bound or the lateness; .late.sink(...) keeps them.",
            )  # fmt: skip


def rejected_rows(watched: Watched) -> Iterator[Finding]:
    """More rows than normal were rejected."""
    for node in watched.nodes():
        if (shares := _too_many(watched, node, "rejected")) is not None:
            share, norm = shares
            where, part = _most(watched.recent, "rejected", node)
            yield Finding(
                rule="rejected_rows", severity="warning", about=f"partition {where}" if where else f"stage {node}",
                what=f"{percent(share)} of the rows of {node} are rejected; {percent(norm)} is normal.",
                cause=f"Poison: {percent(part)} of them came in partition {where}; they cannot be decoded, or have no usable time." if where
                else "Their values cannot be placed: a time or a window that leaves the calendar, or a change whose op nobody knows.",
                fix="See what its producer changed (its format, its schema, its clock); .rejected.sink(...) keeps them, with the reason of each.",
            )  # fmt: skip


def _too_many(watched: Watched, node: str, word: str) -> tuple[float, float] | None:
    """The share now and the norm, if the share is above it."""
    count, rows = (watched.booked(node, each, watched.recent) for each in (word, "rows"))
    before, of = (watched.booked(node, each, watched.norm) for each in (word, "rows"))
    norm = share_of(before, of)
    share = share_of(count, rows)
    known = of >= SOME and span_of(watched.norm) >= KNOWN  # before windows close for the first time nothing is dropped
    usual = TIMES * norm if known else max(USUAL, TIMES * norm)
    # The norm is known from so many rows only: as many more as chance brings do not count.
    expected = norm * rows
    unlikely = count > expected + 5 * max(expected, 1) ** 0.5
    return (share, norm) if count >= FEW and share > usual and unlikely else None


def _most(records: Sequence[Record], word: str, source: str | None = None) -> tuple[str, float]:
    """The partition with most rows of a kind, and its share of them."""
    counted: Counter[str] = Counter()
    for record in records:
        for name, counts in record[word].items():
            if source in (None, name):
                counted.update({f"{name}/{partition}": count for partition, count in counts.items()})
    if not counted.total():
        return "", 0.0
    where, count = counted.most_common(1)[0]
    return where, count / counted.total()


def hot_key(watched: Watched) -> Iterator[Finding]:
    """One key brings so many of a stage's rows that the task which has it sets the pace."""
    for stage in sorted(watched.newest["state"]):
        rows = watched.booked(stage, "rows", watched.recent)
        hot = _hottest(watched.recent, stage)
        key, count = hot.most_common(1)[0] if hot else ("", 0)
        share = share_of(count, rows)
        known = watched.booked(stage, "rows", watched.norm)
        norm = share_of(max(_hottest(watched.norm, stage).values(), default=0), known)
        # Where there are only so many keys, one of them has a good part of the rows, as it should.
        few_keys = watched.newest["state"][stage]["rows"] <= FEW or hot.total() >= NEARLY_ALL * rows
        if rows >= SOME and not few_keys and share >= (max(0.2, 2 * norm) if known >= SOME else 0.5):
            yield Finding(
                rule="hot_key", severity="warning", about=f"stage {stage}",
                what=f"The key {key} brings {percent(share)} of the rows of {stage}; the hottest key had {percent(norm)} before.",
                cause="One user, device or default value (a null, say) stands for far more events than the others.",
                fix="See whether it is a fault in the data, and filter it out; else spread it: .join(..., salt=8), or a first stage keyed by more columns.",
            )  # fmt: skip


def _hottest(records: Sequence[Record], stage: str) -> Counter[str]:
    """The rows of the hottest keys; each tick names some."""
    counted: Counter[str] = Counter()
    for record in records:
        for hot in record["hottest"].get(stage, ()):
            counted[hot["key"]] += hot["rows"]
    return counted

"""Put the shares of a stage's state together: what was stepped, and what nobody touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from strandline.errors import StateError
from strandline.kernel.segments import GREATEST_HASH
from strandline.store.records import SegmentRef, StageRecord
from strandline.store.state_files import StatePart

Range = tuple[int, int]


def record_of(
    about: Mapping[str, str], parts: Sequence[StatePart], before: StageRecord | None = None, *, watermark: int
) -> StageRecord:
    """The record of a stage whose shares were stepped; keys in none of them are as they were before.

    Law: every key's segments are those of its share, from the oldest to the youngest; adjoining ranges of one segment
    are one range.
    """
    stepped = sorted((part.least, part.greatest) for part in parts)
    for (_, greatest), (least, _) in pairwise(stepped):
        if least <= greatest:
            raise StateError("Two shares of a stage's state overlap.", fix="Give every hash to one share.")
    free, old = _between(stepped), before or StageRecord()
    segments = _joined([r for p in parts for r in p.segments], old.segments, free)
    names = sorted({*old.indexes, *(name for part in parts for name in part.indexes)})
    indexes = {
        name: _joined([r for p in parts for r in p.indexes.get(name, ())], old.indexes.get(name, ()), free)
        for name in names
    }
    dues = [part.due for part in parts] + ([old.due] if free else [])
    return StageRecord(
        about=dict(about), segments=_by_age(segments), indexes=indexes, due=_earliest(dues), watermark=watermark,
        rows=sum(ref.rows for ref in segments), nbytes=sum(ref.nbytes for ref in segments),
    )  # fmt: skip


def _between(stepped: Sequence[Range]) -> list[Range]:
    """The ranges of hashes that no share has."""
    edges = [-1, *(edge for one in stepped for edge in one), GREATEST_HASH + 1]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return [(first + 1, last - 1) for first, last in gaps if first + 1 <= last - 1]


def _untouched(refs: Iterable[SegmentRef], free: Sequence[Range]) -> list[SegmentRef]:
    return [
        _narrowed(ref, max(ref.least, least), min(ref.greatest, greatest))
        for ref in refs
        for least, greatest in free
        if ref.least <= greatest and least <= ref.greatest
    ]


def _narrowed(ref: SegmentRef, least: int, greatest: int) -> SegmentRef:
    """A part of a segment that nobody looked at: its rows are estimated, as hashes lie evenly."""
    if (least, greatest) == (ref.least, ref.greatest):
        return ref
    whole, part = ref.greatest - ref.least + 1, greatest - least + 1
    rows, nbytes = -(-ref.rows * part // whole), -(-ref.nbytes * part // whole)
    return replace(ref, least=least, greatest=greatest, rows=rows, nbytes=nbytes)


def _joined(stepped: Sequence[SegmentRef], old: Sequence[SegmentRef], free: Sequence[Range]) -> tuple[SegmentRef, ...]:
    """What the shares have and what nobody touched; adjoining ranges of the same segment as one."""
    ranges: dict[tuple[str, int, int | None], list[SegmentRef]] = {}
    for ref in (*stepped, *_untouched(old, free)):
        ranges.setdefault((ref.file, ref.at, ref.forgotten), []).append(ref)
    counted = {_place(ref): ref for ref in old}  # where all of it is still there, its rows need no estimate
    return tuple(counted.get(_place(ref), ref) for same in ranges.values() for ref in _adjoined(same))


def _place(ref: SegmentRef) -> tuple[str, int, int, int, int | None]:
    return ref.file, ref.at, ref.least, ref.greatest, ref.forgotten


def _adjoined(same: list[SegmentRef]) -> list[SegmentRef]:
    found: list[SegmentRef] = []
    for ref in sorted(same, key=lambda ref: ref.least):
        last = found[-1] if found else None
        if last is not None and last.greatest + 1 == ref.least:
            rows, nbytes = last.rows + ref.rows, last.nbytes + ref.nbytes
            found[-1] = replace(last, greatest=ref.greatest, rows=rows, nbytes=nbytes)
        else:
            found.append(ref)
    return found


def _by_age(refs: Iterable[SegmentRef]) -> tuple[SegmentRef, ...]:
    return tuple(sorted(refs, key=lambda ref: (ref.slice, ref.first_tick, ref.last_tick)))


def _earliest(dues: Sequence[Mapping[str, int | None]]) -> dict[str, int | None]:
    names = sorted({name for due in dues for name in due})
    known = {name: [at for due in dues if (at := due.get(name)) is not None] for name in names}
    return {name: min(known[name], default=None) for name in names}

"""A stage's state in files: opened lazily, and written without writing again what is already there.

A tick writes one file for each share of the keys, with the segments and runs of due indexes that are new. What was
opened from a file is only referred to, with the range of hashes for which it is live; so a tick writes what it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import polars as pl

from strandline.kernel.codec import encode_parts
from strandline.kernel.due import DueIndex
from strandline.kernel.fingerprint import fingerprint, require_fitting
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.plan import Plan
from strandline.kernel.segments import Origin, Segment, cut_blocks, damaged
from strandline.kernel.state import INDEXES, State, require_columns
from strandline.kernel.upcoming import upcoming
from strandline.kernel.widen import missing_aggregates, widen
from strandline.model.time import Instant
from strandline.store.layout import state_file
from strandline.store.opened import OPENED
from strandline.store.records import SegmentRef, StageRecord, ref_from_json, ref_to_json
from strandline.store.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """The state of the keys whose hashes are from `least` to `greatest`, as it was written; `written` are bytes.

    `due` is as in a StageRecord.
    """

    least: int
    greatest: int
    segments: tuple[SegmentRef, ...] = ()
    indexes: Mapping[str, tuple[SegmentRef, ...]] = field(default_factory=dict)
    due: Mapping[str, int | None] = field(default_factory=dict)
    rows: int = 0
    nbytes: int = 0
    written: int = 0

    def to_json(self) -> dict[str, Any]:
        """This part as plain JSON."""
        indexes = {name: [ref_to_json(ref) for ref in refs] for name, refs in self.indexes.items()}
        return {**asdict(self), "segments": [ref_to_json(ref) for ref in self.segments], "indexes": indexes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StatePart:
        """Read what `to_json` wrote."""
        indexes = {name: tuple(map(ref_from_json, rows)) for name, rows in data["indexes"].items()}
        return cls(**{**data, "segments": tuple(map(ref_from_json, data["segments"])), "indexes": indexes})


def open_state(plan: AnyPlan, storage: Storage, record: StageRecord | None, least: int, greatest: int) -> State:
    """The state of the keys with these hashes. Only the indexes of files are read; rows when they are needed.

    StateError names the file, and the block, that is missing or damaged; and what differs in a stage that was changed.
    """
    if record is None:
        return State()
    require_fitting(plan, record.about)
    OPENED.keep(storage, {ref.file for ref in record.refs})
    slices: dict[int, list[Segment]] = {}
    # By age. Two that begin in one tick hold different windows, or the younger one was merged with later ticks.
    for ref in sorted(_met(record.segments, least, greatest), key=lambda ref: (ref.first_tick, ref.last_tick)):
        segment = _cut(plan, storage, ref, least, greatest)
        if segment.rows:
            slices.setdefault(ref.slice, []).append(segment)
    require_columns(plan, {id(s.schema): s for segments in slices.values() for s in segments}.values())
    indexes = {
        name: DueIndex.of_runs(list(_runs(storage, record.indexes.get(name, ()), least, greatest))) for name in INDEXES
    }
    return State(slices={number: tuple(slices[number]) for number in sorted(slices)}, **indexes)


def stored_state(storage: Storage, record: StageRecord) -> State:
    """The rows of a stage as they are kept, for whoever looks at them without the flow that wrote them."""
    slices: dict[int, list[Segment]] = {}
    for ref in sorted(record.segments, key=lambda ref: (ref.first_tick, ref.last_tick)):
        segment = _stored(storage, ref, "state").within(ref.least, ref.greatest)
        if segment.rows:
            slices.setdefault(ref.slice, []).append(segment)
    return State(slices={number: tuple(slices[number]) for number in sorted(slices)})


def _met(refs: Iterable[SegmentRef], least: int, greatest: int) -> list[SegmentRef]:
    return [ref for ref in refs if ref.least <= greatest and least <= ref.greatest]


def _stored(storage: Storage, ref: SegmentRef, kind: str) -> Segment:
    segments = OPENED.segments(storage, ref.file)
    if ref.at >= len(segments) or (segments[ref.at].schema.names[0] == "due") != (kind == "due"):
        raise damaged(f"the file {ref.file!r} has no segment {ref.at} of {kind} rows, which the manifest names")
    return segments[ref.at]


def _cut(plan: AnyPlan, storage: Storage, ref: SegmentRef, least: int, greatest: int) -> Segment:
    """The rows of a segment that are live and asked for."""
    origin = Origin(ref.file, ref.at, max(least, ref.least), min(greatest, ref.greatest))
    return replace(_whole(plan, storage, ref).within(origin.least, origin.greatest), origin=origin)


def _whole(plan: AnyPlan, storage: Storage, ref: SegmentRef) -> Segment:
    """A segment with the columns of all aggregates, also of those that were added after it was written."""
    segment = _stored(storage, ref, "state")
    added = missing_aggregates(plan, segment)
    if not added:
        return segment
    assert isinstance(plan, Plan), "only windows have aggregates"
    made_of = (Origin(ref.file, ref.at), added)
    return OPENED.made(storage, ref.file, made_of, lambda: widen(plan, segment, added))


def _runs(storage: Storage, refs: Iterable[SegmentRef], least: int, greatest: int) -> Iterator[Segment]:
    """The runs of a due index, without what is forgotten."""
    for ref in _met(refs, least, greatest):
        origin = Origin(ref.file, ref.at, max(least, ref.least), min(greatest, ref.greatest))
        index = DueIndex((_run_within(storage, ref, origin),))
        if ref.forgotten is not None and index.runs[0].rows:
            index = index.forget(Instant(ref.forgotten))
        yield from (run for run in index.runs if run.rows)


def _run_within(storage: Storage, ref: SegmentRef, origin: Origin) -> Segment:
    """The entries of a run with these hashes: all of it, or a filtered copy, which is kept, because entries stand by time."""
    run = _stored(storage, ref, "due")
    if all(origin.least <= block.least_hash and block.greatest_hash <= origin.greatest for block in run.blocks):
        return replace(run, slice=0, origin=origin)

    def filtered() -> Segment:
        mine = pl.col("hash").is_between(pl.lit(origin.least, pl.UInt64), pl.lit(origin.greatest, pl.UInt64))
        return Segment(0, run.first_tick, run.last_tick, cut_blocks(run.frame().filter(mine)), origin)

    return OPENED.made(storage, origin.file, origin, filtered)


def write_state(
    plan: AnyPlan, storage: Storage, stage: str, tick: int, state: State, least: int, greatest: int,
    *, watermark: int = int(Instant.BEFORE_ALL_TIME),
) -> StatePart:  # fmt: skip
    """Write what is new in the state of the keys with these hashes, as one file, and say where everything is.

    No file is written if nothing is new. `watermark` is that of the stage's input after the tick: the more is known of
    it, the nearer to the truth is what is said to be due.
    """
    rows = [segment for number in sorted(state.slices) for segment in state.slices[number]]
    runs = [(name, run) for name in INDEXES for run in _index(state, name).runs]
    new = [segment for segment in rows if segment.origin is None]
    new += [replace(run, slice=INDEXES.index(name)) for name, run in runs if run.origin is None]
    file, written = state_file(stage, tick), 0
    if new:
        parts = encode_parts(new, kind="state", about=fingerprint(plan))
        written = sum(memoryview(part).nbytes for part in parts)
        if not storage.create(file, parts):
            raise damaged(f"the file {file!r} exists, although its name is drawn at random")
    places = iter(range(len(new)))
    refs = [_ref(segment, file, places, least, greatest) for segment in rows]
    indexes: dict[str, tuple[SegmentRef, ...]] = dict.fromkeys(INDEXES, ())
    for name, run in runs:
        # Entries stand by time, so all before the first that is left are forgotten, and none behind it.
        ref = replace(_ref(run, file, places, least, greatest), forgotten=_first_due(run) - 1)
        indexes[name] = (*indexes[name], ref)
    due = {
        "event": upcoming(plan, state, watermark), "processing": state.timers.earliest, "hold": state.holds.earliest,
    }  # fmt: skip
    return StatePart(
        least=least, greatest=greatest, segments=tuple(refs), indexes=indexes, rows=state.rows, nbytes=state.nbytes,
        due={name: None if at is None else int(at) for name, at in due.items()}, written=written,
    )  # fmt: skip


def _index(state: State, name: str) -> DueIndex:
    index: DueIndex = getattr(state, name)
    return index


def _first_due(run: Segment) -> int:
    earliest = DueIndex((run,)).earliest
    assert earliest is not None  # the run is one
    return int(earliest)


def _ref(segment: Segment, file: str, places: Iterator[int], least: int, greatest: int) -> SegmentRef:
    """Where a segment is: where it came from, or at the next place of the new file."""
    origin = segment.origin or Origin(file, next(places))
    return SegmentRef(
        file=origin.file, at=origin.at, slice=segment.slice, first_tick=segment.first_tick, last_tick=segment.last_tick,
        rows=segment.rows, nbytes=segment.nbytes, least=max(least, origin.least), greatest=min(greatest, origin.greatest),
    )  # fmt: skip

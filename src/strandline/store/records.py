"""The parts of a manifest: a stage's segments, a sink's rows, a Spark batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.kernel.segments import GREATEST_HASH
from strandline.model.time import Instant
from strandline.store.storage import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRef:
    """A segment in a file: number `at` in it, of which the hashes from `least` to `greatest` are live.

    Of a run of a due index the entries due at `forgotten` or before are dead too. `rows` and `nbytes` are of the live
    part; where a part was cut off without being looked at they are estimates.
    """

    file: str
    at: int
    slice: int
    first_tick: int
    last_tick: int
    rows: int
    nbytes: int
    least: int = 0
    greatest: int = GREATEST_HASH
    forgotten: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """A stage after a tick. `about` is its plan's fingerprint.

    `due` says when it must be stepped without input. "event": the watermark at which a window may fire or expire;
    "processing": when a timer may ring; "hold": the earliest time at which it may still show a pane. None: never. All
    are lower bounds.
    """

    about: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[SegmentRef, ...] = ()
    indexes: Mapping[str, tuple[SegmentRef, ...]] = field(default_factory=dict)
    due: Mapping[str, int | None] = field(default_factory=dict)
    watermark: int = int(Instant.BEFORE_ALL_TIME)
    rows: int = 0
    nbytes: int = 0

    @property
    def refs(self) -> tuple[SegmentRef, ...]:
        """All segments, those of the indexes too."""
        return (*self.segments, *(ref for name in sorted(self.indexes) for ref in self.indexes[name]))

    @property
    def files(self) -> frozenset[str]:
        """The files it needs."""
        return frozenset(ref.file for ref in self.refs)

    @property
    def at_least(self) -> int:
        """How many of its rows are surely of different windows: those of segments that have a hash in common may be the same."""
        apart: dict[int, list[SegmentRef]] = {}
        for ref in sorted(self.segments, key=lambda each: -each.rows):
            chosen = apart.setdefault(ref.slice, [])
            if all(ref.greatest < other.least or other.greatest < ref.least for other in chosen):
                chosen.append(ref)
        return sum(ref.rows for chosen in apart.values() for ref in chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRef:
    """A file of rows for a sink, with the digest of its bytes."""

    file: str
    rows: int
    nbytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTick:
    """The rows of a tick for a sink that are perhaps not yet published; `after` is the tick that it got before."""

    tick: int
    now: int
    outputs: tuple[OutputRef, ...]
    digest: str
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """What a tick has for a sink, and earlier ticks that are committed but perhaps not yet published there.

    `after` is the last tick before this one that had rows for the sink, in the same incarnation; None if there is none.
    """

    outputs: tuple[OutputRef, ...] = ()
    digest: str = ""
    pending: tuple[PendingTick, ...] = ()
    after: int | None = None

    @property
    def files(self) -> frozenset[str]:
        """The files it needs."""
        return frozenset(ref.file for refs in (self.outputs, *(p.outputs for p in self.pending)) for ref in refs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """Which Spark batch a tick was: the query's id, the batch's number and the text of `offsets/<batch>`.

    `frames` are the DataFrame sources, in order: the offsets know them by their place. `remembers`: beside the offsets
    Spark keeps what one of them needs to go on.
    """

    query: str
    batch: int
    offsets: str
    frames: tuple[str, ...] = ()
    remembers: bool = False

    @property
    def digest(self) -> str:
        """A short text that differs when the offsets do."""
        return digest_of(self.offsets.encode())


_REF: Final = tuple(SegmentRef.__dataclass_fields__)


def stage_to_json(stage: StageRecord) -> dict[str, Any]:
    """A stage, its refs as rows without names: there may be thousands of them."""
    indexes = {name: [ref_to_json(ref) for ref in refs] for name, refs in stage.indexes.items()}
    plain = {"about": dict(stage.about), "due": dict(stage.due), "watermark": stage.watermark}
    counts = {"rows": stage.rows, "nbytes": stage.nbytes}
    return {**plain, **counts, "segments": [ref_to_json(ref) for ref in stage.segments], "indexes": indexes}


def ref_to_json(ref: SegmentRef) -> list[Any]:
    """A ref as a row without names."""
    return [getattr(ref, name) for name in _REF]


def ref_from_json(row: list[Any]) -> SegmentRef:
    """Read what `ref_to_json` wrote."""
    return SegmentRef(**dict(zip(_REF, row, strict=True)))


def stage_from_json(data: dict[str, Any]) -> StageRecord:
    """Read what `stage_to_json` wrote."""
    indexes = {name: tuple(map(ref_from_json, rows)) for name, rows in data["indexes"].items()}
    return StageRecord(**{**data, "segments": tuple(map(ref_from_json, data["segments"])), "indexes": indexes})


def spark_from_json(data: dict[str, Any]) -> SparkPlace:
    """Read what `dataclasses.asdict` made of Spark's place."""
    return SparkPlace(**{**data, "frames": tuple(data["frames"])})


def sink_from_json(data: dict[str, Any]) -> SinkRecord:
    """Read what `dataclasses.asdict` made of a sink's record."""
    pending = tuple(PendingTick(**{**p, "outputs": _outputs(p["outputs"])}) for p in data["pending"])
    return SinkRecord(outputs=_outputs(data["outputs"]), digest=data["digest"], pending=pending, after=data["after"])


def _outputs(data: list[dict[str, Any]]) -> tuple[OutputRef, ...]:
    return tuple(OutputRef(**each) for each in data)

"""Look into the state of a stage: its rows as a person understands them, and where it is large.

State is only read, and not all of it: pieces are opened one after the other until enough was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from strandline.errors import StateError, did_you_mean
from strandline.kernel.fingerprint import require_fitting
from strandline.kernel.hashing import bucket_of, hash_columns
from strandline.kernel.keys import KEY
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.segments import Segment, frame_of
from strandline.kernel.shares import shares
from strandline.kernel.state import State
from strandline.model.time import Instant
from strandline.operations.kept_aggregates import with_aggregates
from strandline.operations.key_values import key_value
from strandline.operations.state_rows import readable, windows
from strandline.store.manifests import Manifest, Manifests
from strandline.store.records import StageRecord
from strandline.store.savepoints import savepoint
from strandline.store.state_files import open_state, stored_state
from strandline.store.storage import Storage

By = Literal["bucket", "key", "window"]

PIECE: Final = 100_000
"""So many rows are looked at together."""
MOST: Final = 5_000_000
"""After so many rows it is said that there are more."""
ALL: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What was found: rows of plain values under the names of their columns, and what there is to say about them.

    `more`: there are rows that were not shown.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows: those of a key (some of its columns, as text; None is null), and of windows that meet a span of time."""

    key: Mapping[str, str | None] = field(default_factory=dict)
    window: tuple[Instant, Instant] | None = None
    limit: int = 20
    raw: bool = False


def manifest_of(storage: Storage, tick: int | None = None, name: str | None = None) -> Manifest:
    """The last committed tick; or an earlier one that is still there; or that of a savepoint."""
    if name is not None:
        return savepoint(storage, name).manifest
    manifests = Manifests(storage)
    head = manifests.head()
    if head is None:
        raise StateError(f"There is no state in {storage.url}.", fix="Give the folder that the flow was run with.")
    if tick is None:
        return head
    numbers = manifests.numbers()
    if tick not in numbers:
        raise StateError(
            f"Tick {tick} is not kept in {storage.url}.", fix=f"Look at another: ticks {numbers[0]} to {numbers[-1]}."
        )
    return manifests.at(tick)


def stages(manifest: Manifest) -> Table:
    """The stages of a tick, and how large the state of each is."""
    columns = ("stage", "kind", "rows", "bytes", "segments", "files", "watermark")
    rows = [
        (name, kind_of(record), record.rows, record.nbytes, len(record.segments), len(record.files), Instant(record.watermark).text)
        for name, record in manifest.stages.items()
    ]  # fmt: skip
    return Table(columns=columns, rows=tuple(rows))


def kind_of(record: StageRecord) -> str:
    """What kind of stage a state is of.

    >>> kind_of(StageRecord(about={"operator": "JoinTable"})), kind_of(StageRecord(about={"window": "Tumbling(size=1)"}))
    ('JoinTable', 'Tumbling windows')
    """
    about = record.about
    return about.get("operator") or f"{about.get('window', '?').partition('(')[0]} windows"


def rows_of(storage: Storage, manifest: Manifest, stage: str, wanted: Wanted, plan: AnyPlan | None = None) -> Table:
    """Rows of a stage's state, in the order of time and of hashes.

    With the `plan` of the stage the rows of a window are put together, and its aggregates are as they would be shown; without
    it rows stand as they are kept, and say what the aggregates that are built in come to in each.
    """
    record = _record(manifest, stage)
    state = _opened(storage, record, plan)
    found: list[pl.DataFrame] = []
    seen = shown = 0
    for piece in _pieces(state, record, wanted):
        seen += piece.height
        if not piece.height:
            continue
        whole = piece if plan is None else windows(plan, piece, int(record.watermark))
        chosen = whole.filter(_of_window(wanted.window))
        found.append(chosen)
        shown += chosen.height
        if shown > wanted.limit or seen > MOST:
            break
    if not found:
        return Table(columns=(), rows=(), notes=("There are no such rows.",))
    rows = pl.concat(found).head(wanted.limit)
    if plan is None and not wanted.raw:
        rows = with_aggregates(rows, record.about)
    frame, notes = readable(rows, kind_of(record), plan, raw=wanted.raw)
    if seen > MOST:
        notes = (*notes, f"Only the first {seen:,} rows were looked at.")
    return Table(
        columns=tuple(frame.columns), rows=tuple(frame.rows()), more=shown > wanted.limit or seen > MOST, notes=notes
    )


def sizes_of(storage: Storage, manifest: Manifest, stage: str, by: By, wanted: Wanted) -> Table:
    """Where the state of a stage is large: rows and bytes by bucket, by key or by window, the largest first."""
    record = _record(manifest, stage)
    state = _opened(storage, record, None)
    counted: list[pl.DataFrame] = []
    seen = 0
    for piece in _pieces(state, record, wanted):
        seen += piece.height
        counted.append(_counted(_named(piece, by, manifest.buckets).filter(_of_window(wanted.window)), by))
        if seen > MOST:
            break
    notes = (f"Only the first {seen:,} rows were looked at.",) if seen > MOST else ()
    if not counted:
        return Table(columns=(), rows=(), notes=("There are no such rows.",))
    each = pl.concat(counted)
    names = [name for name in each.columns if name != "rows"]
    summed = (
        each.group_by(names)
        .agg(pl.col("rows").sum())
        .sort(["rows", *names], descending=[True, *(False for _ in names)])
    )
    per_row = record.nbytes / max(record.rows, 1)
    summed = summed.with_columns(
        (pl.col("rows") * per_row).round().cast(pl.Int64).alias("bytes"),
        (pl.col("rows") / max(int(summed["rows"].sum()), 1)).round(4).alias("share"),
    )
    shown, _ = readable(summed.head(wanted.limit), kind_of(record), None, raw=False)
    return Table(columns=tuple(shown.columns), rows=tuple(shown.rows()), more=summed.height > wanted.limit, notes=notes)


def _record(manifest: Manifest, stage: str) -> StageRecord:
    if stage not in manifest.stages:
        raise StateError(
            f"The state has no stage {stage!r} in tick {manifest.number}.", fix=did_you_mean(stage, manifest.stages)
        )
    return manifest.stages[stage]


def _opened(storage: Storage, record: StageRecord, plan: AnyPlan | None) -> State:
    if plan is None:
        return stored_state(storage, record)
    try:
        return open_state(plan, storage, record, 0, ALL)
    except StateError as error:
        raise StateError(
            error.what, fix="Give the flow that wrote the state; or no flow: rows are then shown as they are kept."
        ) from error


def _pieces(state: State, record: StageRecord, wanted: Wanted) -> Iterator[pl.DataFrame]:
    """The rows that may be wanted, a bounded number at a time; those of a key and window always together."""
    for number in sorted(state.slices):
        segments = [each for each in state.slices[number] if _meets(each, wanted.window)]
        if not segments:
            continue
        chosen, hashes = _chosen(segments[0], record, wanted.key)
        if hashes is not None:
            rows = State(slices={number: tuple(segments)}).find({number: hashes}, _types(segments[0]))
            yield rows.filter(chosen)
            continue
        rows_there = sum(segment.rows for segment in segments)
        for least, greatest in shares(2**12, -(-rows_there // PIECE)):
            parts = [part for segment in segments if (part := segment.within(least, greatest)).rows]
            if parts:
                batches = [batch for part in parts for batch in part.batches()]
                yield frame_of(batches, parts[0].schema).filter(chosen)


def _meets(segment: Segment, window: tuple[Instant, Instant] | None) -> bool:
    """Whether rows whose lives end after the beginning of the wanted time may be there."""
    return window is None or any(block.greatest_time > window[0] for block in segment.blocks if block.rows)


def _of_window(window: tuple[Instant, Instant] | None) -> pl.Expr:
    if window is None:
        return pl.lit(value=True)
    return (pl.col("window_end") > int(window[0])) & (pl.col("window_start") <= int(window[1]))


def _chosen(segment: Segment, record: StageRecord, key: Mapping[str, str | None]) -> tuple[pl.Expr, Any]:
    """What rows of the key fulfil, and the hash by which they are found; None where only looking at all finds them."""
    known = {name.removeprefix(KEY): dtype for name, dtype in _types(segment).items() if name.startswith(KEY)}
    chosen, values = pl.lit(value=True), {}
    for name, text in key.items():
        if name not in known:
            raise StateError(f"The state has no key {name!r}.", fix=did_you_mean(name, known))
        values[name] = key_value(name, text, known[name])
        column = pl.col(KEY + name)
        chosen &= column.is_null() if text is None else column == pl.lit(values[name][0], known[name])
    spread = {"salt", "broadcast"} & {name for name, said in record.about.items() if said not in {"null", "false"}}
    if not known or set(values) != set(known) or spread:
        return chosen, None
    return chosen, np.asarray(hash_columns([values[name] for name in known]))


def _types(segment: Segment) -> Mapping[str, pl.DataType]:
    return segment.with_blocks(()).frame().schema


def _named(rows: pl.DataFrame, by: By, buckets: int) -> pl.DataFrame:
    """Rows with what they are counted by."""
    found = rows.select("hash", "window_start", "window_end", pl.col(f"^{KEY}.*$".replace(".", r"\.", 1)))
    if by != "bucket":
        return found
    return found.with_columns(pl.Series("bucket", bucket_of(rows["hash"].to_numpy(), buckets)))


def _counted(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    keys = [name for name in rows.columns if name.startswith(KEY)]
    names: Sequence[str] = {"bucket": ["bucket"], "window": ["window_start", "window_end"], "key": keys}[by]
    if not names:  # a stage without keys is one key
        return pl.DataFrame({"rows": [rows.height]}, schema={"rows": pl.UInt32})
    return rows.group_by(names).agg(pl.len().alias("rows"))


def fits(plan: AnyPlan, record: StageRecord) -> bool:
    """Whether a stage can take up a state."""
    try:
        require_fitting(plan, record.about)
    except StateError:
        return False
    return True

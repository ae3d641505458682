"""Read a sample from files, with the reader that a flow would use."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strandline.errors import DataError, DescriptionError, did_you_mean
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.operations.advise.sample import Sample
from strandline.sources.contract import Limit, Piece
from strandline.sources.files import FileReader, FileSource, Format
from strandline.sources.lines import COMPRESSED, blocks
from strandline.store.local import LocalStorage

Unit = Literal["s", "ms", "us"]
UNITS: Final[dict[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1}
MOST: Final = 5_000_000
_ENDINGS: Final[dict[str, Format]] = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet",
}  # fmt: skip
_LOOKED_AT: Final = 200  # lines
_SAID: Final[dict[Unit, str]] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
_A_YEAR: Final = 366 * 86_400_000_000
_PARTS: Final = "parts"  # lists, structs, spans: no column that anything goes by
_KINDS: Final = {str: "string", bool: "boolean", int: "bigint", float: "double"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of the files mean what. `unit` is that of times which are whole numbers."""

    time: str | None
    arrival: str | None = None
    partition: str | None = None
    key: Sequence[str] = ()
    unit: Unit | None = None


def read_sample(
    path: str, columns: Columns, *, format: Format | None = None, separator: str = ",", most: int = MOST
) -> Sample:
    """The first so many events of a file, or of a folder's files in the order in which a flow would find them."""
    if not Path(path).exists() and not any(each in path for each in "*?["):
        raise DescriptionError(f"There is no file {path}.", fix="Name a file with events, or a folder of such files.")
    with tempfile.TemporaryDirectory(prefix="strandline-advise-") as log:
        kind = format or format_of(path)
        found = _first_file(path, kind, log)
        kinds = _kinds(found, kind, separator)
        schema = _schema(kinds, columns, found)
        reader = FileSource(path, format=kind, schema=schema, separator=separator).reader(
            LocalStorage(Path(log) / "rows")
        )
        return _sample(_pieces(reader, most), columns, most, path)


def format_of(path: str) -> Format:
    """The format of a file, or of the first in a folder that has one, by its ending.

    >>> format_of("orders.json.gz")
    'json'
    """
    place = Path(path)
    names = sorted(each.name for each in place.rglob("*")) if place.is_dir() else [place.name]
    for name in names:
        plain = name
        for ending in COMPRESSED:
            plain = plain.removesuffix(ending)
        if (suffix := Path(plain).suffix) in _ENDINGS and not name.startswith(("_", ".")):
            return _ENDINGS[suffix]
    raise DescriptionError(f"What is in {path} is not said by its name.", fix="Say --format json, csv or parquet.")


def _first_file(path: str, format: Format, log: str) -> Path:
    reader = FileSource(path, format=format, schema="nothing string").reader(LocalStorage(Path(log) / "names"))
    end = reader.latest(reader.first(), Limit())
    if not end["files"]:
        raise DataError(f"There are no files in {path}.", fix="Name a file with events, or a folder of such files.")
    files = [Path(each.below(reader.wanted.root)) for each in reader.log.files]
    found = next((each for each in files if each.stat().st_size), None)
    if found is None:
        raise DataError(f"There is nothing in {path}: it is empty.", fix="Give a file with events.")
    return found


def _kinds(path: Path, format: Format, separator: str) -> dict[str, str]:
    """The columns of a file, each with the type in which a flow would read it."""
    if format == "parquet":
        return {name: _kind(dtype) for name, dtype in pl.read_parquet_schema(path).items()}
    lines = next(blocks(str(path), 0, path.stat().st_size), b"").splitlines()[:_LOOKED_AT]
    if not any(line.strip() for line in lines):
        raise DataError(f"There is nothing in {path.name}: it is empty.", fix="Give a file with events.")
    if format == "csv":
        header = next((line for line in lines if line.strip()), b"").decode("utf-8", "replace")
        return {name.strip().strip('"'): "string" for name in header.split(separator) if name.strip()}
    told: dict[str, set[str]] = {}
    for line in lines:
        for name, value in _object(line).items():
            kinds = told.setdefault(name, set())
            if value is not None:
                kinds.add(_KINDS.get(type(value), "string"))
    if not told:
        raise DataError(
            f"{path.name} is read as JSON, and there is no object in its lines.",
            fix='Say --format csv, if it is CSV; or give lines such as {"user": "ann", "at": "2026-01-01T12:00:00Z"}.',
        )
    return {name: kinds.pop() if len(kinds) == 1 else _wider(kinds) for name, kinds in told.items()}


def _wider(kinds: set[str]) -> str:
    return "double" if kinds == {"bigint", "double"} else "string"


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:  # the reader rejects it, and it is counted
        return {}
    return found if isinstance(found, dict) else {}


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "bigint"
    if dtype.is_numeric():
        return "double"
    if isinstance(dtype, pl.Datetime):
        return "timestamp"
    known = {pl.Boolean: "boolean", pl.Date: "date", pl.Binary: "binary", pl.String: "string", pl.Categorical: "string"}
    return known.get(dtype.base_type(), _PARTS)


def _schema(kinds: dict[str, str], columns: Columns, path: Path) -> Schema:
    """The columns that are asked for, each with its type; the times as whole numbers if a unit is said."""
    if columns.time is None:
        raise DescriptionError(
            "It is not said which column has the time of an event.",
            fix=f"Say --time COLUMN: it has {', '.join(kinds) or 'none'}.",
        )
    times = [name for name in (columns.time, columns.arrival) if name is not None]
    others = [name for name in (columns.partition, *columns.key) if name is not None]
    for name in (*times, *others):
        if name not in kinds:
            raise DescriptionError(f"There is no column {name!r} in {path.name}.", fix=did_you_mean(name, kinds))
        if kinds[name] == _PARTS:
            raise DescriptionError(
                f"The column {name!r} of {path.name} has parts.", fix="Name a column of text, numbers, dates or times."
            )
    wanted = {name: kinds[name] for name in others}
    wanted.update(dict.fromkeys(times, "timestamp" if columns.unit is None else "bigint"))
    return Schema(tuple((name, Type.of(kind)) for name, kind in wanted.items()))


def _pieces(reader: FileReader, most: int) -> Iterator[Piece]:
    """Pieces in order, until there are rows enough."""
    end = reader.latest(reader.first(), Limit())
    rows = 0
    for part in reader.parts(reader.first(), end, 1):
        for piece in reader.read(part):
            yield piece
            rows += piece.rows.height
            if rows > most:
                return


def _sample(pieces: Iterator[Piece], columns: Columns, most: int, path: str) -> Sample:
    found = list(pieces)
    malformed = sum(0 if piece.malformed is None else piece.malformed.height for piece in found)
    rows = pl.concat(piece.rows for piece in found) if found else pl.DataFrame({columns.time: []})
    assert columns.time is not None, "the schema was made of it"
    times = [columns.time] + ([] if columns.arrival is None else [columns.arrival])
    kept = rows.head(most).drop_nulls(times)
    if not rows.height + malformed:
        raise DataError(f"There are no events in {path}, only names of columns.", fix="Give a file with events.")
    if not kept.height:
        raise DataError(
            f"No row of {rows.height + malformed:,} has a time in {' and '.join(map(repr, times))} that can be read.",
            fix="Name the right column; times are ISO text, or whole numbers with --unit s, ms or us.",
        )
    kept = kept.filter(pl.all_horizontal(_in_calendar(kept[name], columns.unit) for name in times))
    moments = [_micros(kept[name], columns.unit) for name in times]
    _require_one_unit(times, moments)
    return Sample.of(
        moments[0], arrivals=moments[1] if len(moments) > 1 else None,
        partitions=None if columns.partition is None else kept[columns.partition],
        keys=kept.select(columns.key) if columns.key else None, rejected=min(most, rows.height) - kept.height + malformed,
        cut=rows.height > most,
    )  # fmt: skip


def _in_calendar(column: pl.Series, unit: Unit | None) -> pl.Series:
    """Which times a flow would take; if it would take hardly any, they count in another unit."""
    numbers = column.cast(pl.Int64)
    one = UNITS[unit or "us"]
    found = numbers.is_between(Instant.FIRST_IN_CALENDAR // one, Instant.LAST_IN_CALENDAR // one)
    if 2 * found.sum() < len(found):
        raise DataError(
            f"As {_SAID[unit or 'us']}, times of {column.name!r} lie beyond the year 9999.",
            fix="Say another unit, which they look like: --unit ms or --unit us.",
        )
    return found


def _micros(column: pl.Series, unit: Unit | None) -> NDArray[np.int64]:
    micros = column.cast(pl.Int64).to_numpy() * UNITS[unit or "us"]
    if unit is None and micros.min() >= 0 and micros.max() < _A_YEAR:
        raise DataError(
            f"The times of {column.name!r} lie from {Instant(micros.min()).text} to {Instant(micros.max()).text}: "
            "whole numbers are taken for microseconds since 1970.",
            fix="Say --unit s or --unit ms; in a flow, make a timestamp of them first: .with_column(...).",
        )
    return micros


def _require_one_unit(names: Sequence[str], moments: Sequence[NDArray[np.int64]]) -> None:
    """Events are seldom years under way: then one column counts in another unit."""
    if len(moments) > 1 and abs(np.median(moments[1] - moments[0])) > _A_YEAR:
        of, arrival = (
            f"{name!r} about {Instant(int(np.median(each))).text}" for name, each in zip(names, moments, strict=True)
        )
        raise DataError(
            f"Events are years under way: {of}, {arrival}. One column looks like another unit.",
            fix="--unit says the unit of both; write the columns with one, or as ISO text.",
        )

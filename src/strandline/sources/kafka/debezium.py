"""Envelopes of Debezium, in JSON, as a changelog: the row of each change, and what happened to it.

An envelope is `{"before": row, "after": row, "op": "c", "source": {"ts_ms": ...}, "ts_ms": ...}`, or stands in
`{"schema": ..., "payload": envelope}`. The row is `after`; of a delete it is `before`. `op` becomes

    c  insert      r  snapshot (the row was there when Debezium began)
    u  update      d  delete

and all else (a truncated table, a message of its own) is rejected, for it has no row. `debezium_ts` is when the database
made the change, `source.ts_ms`; where that is missing, when Debezium saw it, `ts_ms`. Values are those of JSON: let
Debezium write times as text or in microseconds (`time.precision.mode`) and decimals as text (`decimal.handling.mode`).

A null value is the tombstone that follows a delete, for topics that are compacted. It says nothing new: it is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sources.jsonobjects import no_object
from strandline.sources.kafka.decoding import Decoded, Value, decode_json

OPS: Final = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = " \t\n\r"
_FIRST_MS: Final = int(Instant.FIRST_IN_CALENDAR) // 1000 + 1
_LAST_MS: Final = int(Instant.LAST_IN_CALENDAR) // 1000


def decode_debezium(values: Sequence[Value], schema: Schema) -> Decoded:
    """The rows of changes, with `op` and `debezium_ts`.

    >>> change = b'{"before": null, "after": {"id": 1}, "op": "c", "ts_ms": 1767225600000}'
    >>> decode_debezium([change, None], Schema.of("id int")).rows.rows()
    [(1, 'insert', datetime.datetime(2026, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))]
    """
    rows: dict[int, bytes] = {}
    ops: list[str] = []
    times: list[int | None] = []
    refused: dict[int, str] = {}
    for place, value in enumerate(values):
        if value is None:
            continue
        try:
            rows[place], op, at = _change(value)
        except ValueError as error:
            refused[place] = str(error)
        else:
            ops.append(op)
            times.append(at)
    found = decode_json(list(rows.values()), schema)
    numbers = np.fromiter(rows, np.int64, len(rows))
    refused |= {int(numbers[place]): reason for place, reason in found.refused.items()}
    moments = pl.Series("debezium_ts", times, dtype=pl.Int64()).cast(pl.Datetime("us", "UTC"))
    change = pl.DataFrame([pl.Series("op", ops, dtype=pl.String()), moments])[found.good]
    return Decoded(found.rows.hstack(change), numbers[found.good], refused)


def _change(value: bytes) -> tuple[bytes, str, int | None]:
    """The text of a change's row, as it came, its op and its time in microseconds; ValueError says why there is none."""
    try:
        text = value.decode()
        envelope = _fields(text, 0)
        if "payload" in envelope and "op" not in envelope:
            envelope = _envelope_within(text, envelope["payload"])
    except (ValueError, IndexError, RecursionError):
        raise ValueError(no_object(value) or "no JSON that can be read") from None
    told = _told(text, envelope, "op")
    if told not in OPS:
        raise ValueError("no envelope of Debezium: it has no op" if told is None else f"op {told!r} has no row")
    side = "before" if told == "d" else "after"
    low, high = envelope.get(side, (0, 0))
    row = text[low:high]
    if not row.startswith("{"):
        raise ValueError(f"a change with op {told!r} has no row in {side!r}")
    return row.encode(), OPS[told], _time(text, envelope)


def _envelope_within(text: str, span: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return _fields(text, span[0]) if text.startswith("{", span[0]) else {}


def _time(text: str, envelope: dict[str, tuple[int, int]]) -> int | None:
    source = _told(text, envelope, "source")
    stated = source.get("ts_ms") if isinstance(source, dict) else None
    at = stated if stated is not None else _told(text, envelope, "ts_ms")
    if at is None:
        return None
    if not isinstance(at, int) or isinstance(at, bool) or not _FIRST_MS <= at <= _LAST_MS:
        raise ValueError(f"column 'debezium_ts': {str(at)[:100]!r} is no timestamp")
    return at * 1000


def _told(text: str, envelope: dict[str, tuple[int, int]], name: str) -> Any:
    if name not in envelope:
        return None
    low, high = envelope[name]
    return json.loads(text[low:high])


def _fields(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Where the values of an object's fields stand in its text, which keeps all their digits; of two names the first counts.

    >>> _fields('{"a": 1.50, "b": {}}', 0)
    {'a': (6, 10), 'b': (17, 19)}
    """
    found: dict[str, tuple[int, int]] = {}
    at = _expect(text, at, "{")
    whole = at == 1
    at = _skip(text, at)
    if text[at] != "}":
        while True:
            name, at = _DECODER.raw_decode(text, _expect(text, at, '"') - 1)
            low = _skip(text, _expect(text, at, ":"))
            _, at = _DECODER.raw_decode(text, low)
            found.setdefault(name, (low, at))
            at = _skip(text, at)
            if text[at] == "}":
                break
            at = _expect(text, at, ",")
    if whole and _skip_to_end(text, at + 1) != len(text):
        raise ValueError("more than one object")
    return found


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at] != sign:
        raise ValueError(f"{sign} expected")
    return at + 1


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at


def _skip_to_end(text: str, at: int) -> int:
    return at + len(text[at:]) - len(text[at:].lstrip(_BLANK))

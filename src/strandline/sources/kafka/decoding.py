"""Values of messages to rows, in columns; and of those that are none, which and why.

Files are decoded by the line, messages one by one: what stands in one cannot change what another means, however they are
decoded together. So messages go through the readers of lines only if each is a line of its own.

Law: of each message comes one row, or one reason, or nothing if it is a tombstone that says nothing new.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from strandline.model.types import Schema
from strandline.sources.csvlines import Layout, read_csv
from strandline.sources.jsonlines import read_json
from strandline.sources.jsonobjects import no_object
from strandline.sources.lines import shown
from strandline.sources.records import record_ends
from strandline.sources.understood import Understood

if TYPE_CHECKING:
    from strandline.sources.kafka.description import KafkaSource

Value = bytes | None
Read = Callable[[bytes, Schema], Understood]

NULL: Final = "the value is null"
EMPTY: Final = "an empty message"


@dataclass(slots=True, eq=False)
class Decoded:
    """Rows, the places of the messages they came from, in order, and the reasons of those that are no rows."""

    rows: pl.DataFrame
    good: np.ndarray[Any, Any]
    refused: dict[int, str] = field(default_factory=dict)

    def refuse(self, reasons: dict[int, str]) -> None:
        """Take rows out again, by the places of their messages."""
        stays = ~np.isin(self.good, list(reasons))
        self.refused |= {place: reasons[place] for place in self.good[~stays].tolist()}
        self.rows, self.good = self.rows.filter(pl.Series(stays)), self.good[stays]


def decode(source: KafkaSource, values: Sequence[Value]) -> Decoded:
    """The values of some messages in the format of their source."""
    if source.format == "avro":
        from strandline.clients.registry import registry_client
        from strandline.sources.kafka.avro import decode_avro

        assert source.registry is not None, "a source of Avro was made with one"
        return decode_avro(values, source.columns, registry_client(source.registry))
    if source.format == "debezium":
        from strandline.sources.kafka.debezium import decode_debezium

        return decode_debezium(values, source.columns)
    if source.format == "json":
        return decode_json(values, source.columns)
    if source.format == "csv":
        return decode_csv(values, source.columns, source.separator)
    return decode_text(values) if source.format == "text" else decode_bytes(values)


def decode_json(values: Sequence[Value], schema: Schema) -> Decoded:
    """One object of JSON in each message.

    >>> found = decode_json([b'{"n": 1}', None, b'{'], Schema.of("n int"))
    >>> found.rows.rows(), found.good.tolist(), sorted(found.refused)
    ([(1,)], [0], [1, 2])
    """
    return _by_lines(values, schema, read_json, _json_line, lambda block: True)


def decode_csv(values: Sequence[Value], schema: Schema, separator: str = ",") -> Decoded:
    r"""One record of CSV in each message, with the columns in the order of the schema.

    >>> decode_csv([b'ann,1', b'"bob\n",2', b'1,2,3'], Schema.of("user string, n int")).rows.rows()
    [('ann', 1), ('bob\n', 2)]
    """
    layout = Layout(tuple(schema), separator)

    def read(block: bytes, schema: Schema) -> Understood:
        found = read_csv(block, schema, layout)
        reasons = [each.replace("where the file has", "where the schema has") for each in found.reasons]
        return Understood(found.rows, found.raws, reasons)

    return _by_lines(
        values, schema, read, lambda value: _csv_line(value, separator),
        lambda block: len(record_ends(block, separator)) == len(values),
    )  # fmt: skip


def decode_text(values: Sequence[Value]) -> Decoded:
    """The values as text; null stays null."""
    raw = pl.Series("value", values, dtype=pl.Binary())
    try:
        return Decoded(pl.DataFrame([raw.cast(pl.String())]), np.arange(len(values)))
    except pl.exceptions.PolarsError:
        refused = {place: reason for place, value in enumerate(values) if value and (reason := _no_text(value))}
    good = np.array([place for place in range(len(values)) if place not in refused], dtype=np.int64)
    return Decoded(pl.DataFrame([raw[good].cast(pl.String())]), good, refused)


def decode_bytes(values: Sequence[Value]) -> Decoded:
    """The values as they are; null stays null."""
    return Decoded(pl.DataFrame([pl.Series("value", values, dtype=pl.Binary())]), np.arange(len(values)))


class NoLine(ValueError):
    """A message that is no record; the text says why."""


def _by_lines(
    values: Sequence[Value], schema: Schema, read: Read, line_of: Callable[[bytes], bytes], are_lines: Callable[[bytes], bool]
) -> Decoded:  # fmt: skip
    """Read all messages as lines of one block, if they are; else those that can be, and say why the others cannot."""
    if None not in values:
        block = b"\n".join(values) + b"\n"  # type: ignore[arg-type]
        if block.count(b"\n") == len(values) and are_lines(block):
            found = read(block, schema)
            if found.rows.height == len(values) and not found.raws:
                return Decoded(found.rows, np.arange(len(values)))
    lines: dict[int, bytes] = {}
    refused: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            lines[place] = _checked(value, line_of)
        except NoLine as error:  # noqa: PERF203 - each message by itself
            refused[place] = str(error)
    rows, unread = _read_apart(list(lines.values()), schema, read)
    numbers = np.fromiter(lines, np.int64, len(lines))
    refused |= {int(numbers[place]): reason for place, reason in unread.items()}
    good = np.delete(numbers, list(unread))
    return Decoded(rows, good, dict(sorted(refused.items())))


def _checked(value: Value, line_of: Callable[[bytes], bytes]) -> bytes:
    if value is None:
        raise NoLine(NULL)
    if not value.strip():
        raise NoLine(EMPTY)
    reason = _no_text(value)
    if reason is not None:
        raise NoLine(reason)
    return line_of(value)


def _read_apart(lines: list[bytes], schema: Schema, read: Read) -> tuple[pl.DataFrame, dict[int, str]]:
    """The rows of some lines, and the reasons of those that are none, by their place.

    What a line means does not depend on those beside it, so lines of one text have one verdict. Should the readers of
    lines not keep to that, each is read alone.
    """
    if not lines:
        return Understood.nothing(schema).rows, {}
    found = read(b"\n".join(lines) + b"\n", schema)
    verdicts = dict(zip(found.raws, found.reasons, strict=True))
    unread = {
        place: verdicts[text]
        for place, line in enumerate(lines)
        if verdicts and (text := shown(line.rstrip(b"\r"))) in verdicts
    }
    if len(unread) == len(found.raws) and found.rows.height + len(unread) == len(lines):
        return found.rows, unread
    single = [read(line + b"\n", schema) for line in lines]
    rows = pl.concat([each.rows for each in single])
    return rows, {place: each.reasons[0] for place, each in enumerate(single) if each.raws}


def _json_line(value: bytes) -> bytes:
    """A message as one line. Outside of texts a line's end is a blank, and within them JSON has none."""
    value = value.removeprefix(BOM_UTF8)
    if b"\n" in value:
        reason = no_object(value)
        if reason is not None:
            raise NoLine(reason)
        return value.replace(b"\n", b" ")
    if not value.strip():
        raise NoLine(EMPTY)
    return value


def _csv_line(value: bytes, separator: str) -> bytes:
    """A message as one record, which must end where the message does."""
    value = value.removesuffix(b"\n").removesuffix(b"\r")
    if b'"' in value or b"\n" in value:
        ends = record_ends(value + b"\n", separator).tolist()
        if not ends:
            raise NoLine("a quote that is not closed")
        if ends != [len(value) + 1]:
            raise NoLine("more than one record in a message" if ends[-1] > len(value) else "a quote that is not closed")
    return value


def _no_text(value: bytes) -> str | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"no UTF-8 text: byte {error.start + 1} is {value[error.start]:#04x}"
    return None

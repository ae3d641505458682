"""Ranges of files to pieces, in a worker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from strandline.errors import DataError
from strandline.model.types import Schema
from strandline.sources.contract import EVERY, Piece
from strandline.sources.csvlines import Layout, UnreadableHeader, read_csv
from strandline.sources.discovery import require_unchanged
from strandline.sources.jsonlines import read_json
from strandline.sources.lines import LONGEST, blocks, first_line, shown, text_start
from strandline.sources.parquet import DamagedFile, read_parquet
from strandline.sources.ranges import Range
from strandline.sources.records import UnclosedQuote, whole_records
from strandline.sources.understood import Understood

if TYPE_CHECKING:
    from strandline.sources.files import FileSource

# Small files are put together up to here, because each piece has its own cost; no more is held in memory.
_LINES: Final = 500_000
_BYTES: Final = 256 << 20
_PARTITION: Final = "0"


def pieces(source: FileSource, root: str, ranges: Iterable[Range]) -> Iterator[Piece]:
    """The rows of some ranges, one after the other, in pieces of about half a million lines where there are so many."""
    waiting: list[Understood] = []
    lines = nbytes = 0
    for piece in ranges:
        require_unchanged(root, piece.file)
        for found in _understand(source, piece.file.below(root), piece):
            if found.raws and source.on_bad == "fail":
                raise _bad_input(piece.file.path or root, found)
            waiting.append(found)
            lines += found.rows.height + len(found.raws)
            nbytes += found.nbytes
            if lines >= _LINES or nbytes >= _BYTES:
                yield from by_partition(Understood.together(waiting), source.partition_by)
                waiting, lines, nbytes = [], 0, 0
        # A file that was written while it was read may have given neither its old rows nor its new ones.
        require_unchanged(root, piece.file)
    if waiting:
        yield from by_partition(Understood.together(waiting), source.partition_by)


def _understand(source: FileSource, path: str, piece: Range) -> Iterator[Understood]:
    schema = source.schema
    try:
        if source.format == "parquet":
            count = None if piece.end is None else piece.end - piece.start
            yield read_parquet(path, schema, piece.start, count)
        elif source.format == "json":
            end = piece.file.size if piece.end is None else piece.end
            for block in blocks(path, piece.start, end, longest=LONGEST):
                yield read_json(block, schema)
        else:
            yield from _csv(source, path, piece)
    except (DamagedFile, EOFError) as error:
        yield _refused(schema, path, f"the file is damaged: {error}")
    except OSError as error:
        if error.errno is not None:  # the disk, the network or a permission: the rows are there, and must not be lost
            raise DataError(
                f"The file {path} cannot be read: {error.strerror}.", fix="Mend that, and start the flow again."
            ) from error
        yield _refused(schema, path, f"the file is damaged: {error}")


def _refused(schema: Schema, path: str, reason: str) -> Understood:
    """A file that is no rows, by its name, of which not every byte need be text."""
    return Understood.refused(schema, shown(os.fsencode(path)), reason)


def _csv(source: FileSource, path: str, piece: Range) -> Iterator[Understood]:
    schema = source.schema
    try:
        layout, header = _layout(source, path)
    except UnreadableHeader as error:
        if piece.start == 0:  # a file that was cut into ranges is refused once
            yield _refused(schema, path, str(error))
        return
    end = piece.file.size if piece.end is None else piece.end
    header -= max(0, piece.start - text_start(path))
    try:
        for block in whole_records(blocks(path, piece.start, end), source.separator):
            if header < len(block):
                yield read_csv(block[max(0, header) :], schema, layout)
            header -= len(block)
    except UnclosedQuote as error:
        yield _refused(schema, path, f"the file cannot be read to its end: {error}")


def _layout(source: FileSource, path: str) -> tuple[Layout, int]:
    """The columns of a file, and how many bytes of text there are to the end of its header."""
    line, end = first_line(path) if source.header else (b"", 0)
    if not line:
        return Layout(tuple(source.schema), source.separator), end
    layout = Layout.of_header(line, source.schema, source.separator)
    if not set(layout.names) & set(source.schema):
        raise UnreadableHeader(f"the header names no column of the schema: {line[:200]!r}")
    return layout, end


def by_partition(found: Understood, column: str | None) -> Iterator[Piece]:
    """One piece, or one for each value of the column; what was not understood then belongs to no partition."""
    if column is None:
        yield Piece(partition=_PARTITION, rows=found.rows, malformed=found.malformed)
        return
    if found.raws:
        yield Piece(partition=EVERY, rows=found.rows.clear(), malformed=found.malformed)
    for rows in found.rows.partition_by(column, maintain_order=True):
        yield Piece(partition=_named(rows[column][0]), rows=rows)


def _named(value: object) -> str:
    return "null" if value is None else str(value)


def _bad_input(path: str, found: Understood) -> DataError:
    return DataError(
        f"The file {path} holds what cannot be understood: {found.reasons[0]}: {found.raws[0][:200]}",
        fix="Mend the file under a new name, or write on_bad='reject' to go on and find such lines in `.rejected`.",
    )

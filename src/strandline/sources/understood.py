"""What came of some lines: rows in columns, and the lines that could not be understood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl

from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.sources.contract import malformed_table
from strandline.sources.conversion import misfit, misfits, read_column, without_overflow
from strandline.sources.lines import shown
from strandline.sources.unreadable import UNREADABLE, why


@dataclass(frozen=True, slots=True, eq=False)
class Understood:
    """Rows in order, and raw lines with the reasons why they are no rows.

    Law: every line that is not blank is one row or one raw line.
    """

    rows: pl.DataFrame
    raws: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def nothing(cls, schema: Schema) -> Understood:
        """No rows, in the columns of the schema."""
        return cls(pl.DataFrame(schema=polars_schema(schema)))

    @classmethod
    def refused(cls, schema: Schema, raw: str, reason: str) -> Understood:
        """One line that is no row."""
        return cls(pl.DataFrame(schema=polars_schema(schema)), [raw], [reason])

    @classmethod
    def together(cls, found: Sequence[Understood]) -> Understood:
        """One after the other; at least one."""
        if len(found) == 1:
            return found[0]
        rows = pl.concat([each.rows for each in found])
        return cls(rows, [r for each in found for r in each.raws], [r for each in found for r in each.reasons])

    @property
    def nbytes(self) -> int:
        """About how many bytes of data it holds."""
        return int(self.rows.estimated_size()) + sum(map(len, self.raws))

    @property
    def malformed(self) -> pl.DataFrame | None:
        """The raw lines as a piece carries them."""
        return malformed_table(self.raws, self.reasons)


def convert(table: pl.DataFrame, schema: Schema, lines: Callable[[], list[bytes]]) -> Understood:
    """A table whose columns are text, where their own type could not be read directly, in the types of the schema.

    `lines` gives the lines that the rows came from; it is asked only when one of them does not fit.
    """
    columns: dict[str, pl.Series] = {}
    bad = pl.repeat(False, table.height, dtype=pl.Boolean(), eager=True)
    for name, kind in schema.columns:
        found = table[name]
        read = read_column(found, kind) if found.dtype == pl.String() else found
        wanted = polars_schema(schema)[name]
        columns[name] = read if read.dtype == wanted else read.cast(wanted, strict=False)
        if wanted == pl.Float32() and read.dtype == pl.Float64():
            columns[name] = without_overflow(columns[name], read.is_infinite())
        if columns[name].null_count() != found.null_count():
            bad |= misfits(found, columns[name])
    typed = pl.DataFrame(columns, schema=polars_schema(schema))
    if not bad.any():
        return Understood(typed)
    given, refused = lines(), bad.arg_true().to_list()
    reasons = [_reason(table, typed, schema, row) for row in refused]
    return Understood(typed.filter(~bad), [shown(given[row]) for row in refused], reasons)


def halving(lines: list[bytes], schema: Schema, read: Callable[[list[bytes]], Understood]) -> Understood:
    """Read lines; where that fails, read each half, down to the single line that cannot be read."""
    if not lines:
        return Understood.nothing(schema)
    try:
        return read(lines)
    except UNREADABLE as error:
        if len(lines) == 1:
            return Understood.refused(schema, shown(lines[0]), why(error))
        middle = len(lines) // 2
        return Understood.together([halving(half, schema, read) for half in (lines[:middle], lines[middle:])])


def _reason(table: pl.DataFrame, typed: pl.DataFrame, schema: Schema, row: int) -> str:
    for name, kind in schema.columns:
        if typed[name][row] is None and table[name][row] is not None:
            return misfit(name, table[name][row], kind)
    raise AssertionError("a row was refused without a reason")

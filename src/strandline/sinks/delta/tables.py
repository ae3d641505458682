"""How Delta tables are made, checked and written.

Every type of a column is Delta's own, but for `interval day to second`, which Delta does not have: it is a bigint of
microseconds, also inside of arrays and structs. In a key -0.0 is 0.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.changes import DELETE, UPSERT
from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema, Type
from strandline.sinks.contract import OP, Target
from strandline.sinks.zeros import with_one_zero

if TYPE_CHECKING:
    import deltalake
    from deltalake import CommitProperties, DeltaTable

_FORBIDDEN: Final = re.compile(r"[ ,;{}()\n\t=]")


class Appended:
    """A table to which rows are added."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.columns = target.delivered
        self.empty = pl.DataFrame(schema=polars_schema(target.delivered))
        self._require_names()

    @property
    def schema(self) -> deltalake.Schema:
        """The columns, as Delta has them."""
        import deltalake

        return deltalake.Schema.from_arrow(_arrow(self.empty.select(list(self.columns)), self.columns).schema)

    def check(self, table: DeltaTable, partition_by: Sequence[str] = ()) -> None:
        """SinkError with all that differs from what is delivered, if anything does; one may leave out how it is divided."""
        found = {field.name: _type_text(field.type) for field in table.schema().fields}
        wanted = {field.name: _type_text(field.type) for field in self.schema.fields}
        wrong = [f"{name!r} is missing" for name in wanted if name not in found]
        wrong += [f"{name!r} is there, but not delivered" for name in found if name not in wanted]
        wrong += [
            f"{name!r} is {found[name]}, not {kind}"
            for name, kind in wanted.items()
            if name in found and found[name] != kind
        ]
        divided = table.metadata().partition_columns
        if partition_by and list(partition_by) != divided:
            wrong.append(f"it is divided by {divided or 'nothing'}, not by {list(partition_by)}")
        if wrong:
            raise SinkError(
                f"The Delta table does not fit {self.target}: {'; '.join(wrong)}.",
                fix="Name another table, or choose columns with .sink(columns=...).",
            )

    def write(self, table: DeltaTable, rows: pl.DataFrame, commit: CommitProperties) -> None:
        """Add rows, in one commit."""
        from deltalake import write_deltalake

        write_deltalake(table, _arrow(rows, self.columns), mode="append", commit_properties=commit)

    def _require_names(self) -> None:
        seen: dict[str, str] = {}
        for name in self.columns:
            if _FORBIDDEN.search(name):
                raise SinkError(
                    f"The column {name!r} of {self.target} has a name that Delta tables do not take.",
                    fix="Rename it with .select(): no spaces, commas, semicolons, brackets or '='.",
                )
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise SinkError(
                    f"The columns {other!r} and {name!r} of {self.target} are one column to Delta.",
                    fix="Rename one of them with .select().",
                )


class Merged(Appended):
    """A table with one row for each key."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.columns = target.schema
        for name in target.key:
            if not target.schema[name].is_scalar:
                raise SinkError(
                    f"The key of {target} has the column {name!r} of the type {target.schema[name].text}.",
                    fix="Take the parts of it that tell rows apart as columns of their own, with .select().",
                )

    def write(self, table: DeltaTable, rows: pl.DataFrame, commit: CommitProperties) -> None:
        """Put rows in the place of those with their keys, or delete those, in one commit."""
        source = _arrow(with_one_zero(rows, self.target.key, self.target.schema), self.target.delivered)
        values = {quoted(name): f"source.{quoted(name)}" for name in self.columns}
        upserts, deletes = (f"source.{quoted(OP)} = '{op}'" for op in (UPSERT, DELETE))
        # Not streamed: the tick is in memory already, and the least and greatest of its keys spare files.
        merger = table.merge(
            source, self._same_key(), source_alias="source", target_alias="target", streamed_exec=False,
            commit_properties=commit,
        )  # fmt: skip
        merger = merger.when_matched_delete(deletes).when_matched_update(values, upserts)
        before = table.version()
        merger.when_not_matched_insert(values, upserts).execute()
        if table.version() == before:  # it changes nothing, and is no commit: but the marker must move
            super().write(table, rows.clear(), commit)

    def _same_key(self) -> str:
        """Null is a key; the brackets are needed, for AND would bind closer."""
        return " AND ".join(
            f"(target.{quoted(name)} IS NOT DISTINCT FROM source.{quoted(name)})" for name in self.target.key
        )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever stands in it.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def _arrow(rows: pl.DataFrame, columns: Schema) -> Any:
    """Rows as an Arrow table of types that Delta has."""
    kept = rows.select(pl.col(name).cast(_stored(kind)) for name, kind in columns.columns)
    # Without views: not every reader of Arrow knows them.
    return kept.to_arrow(compat_level=pl.CompatLevel.oldest())


def _stored(kind: Type) -> pl.DataType:
    return next(iter(polars_schema(Schema((("", _without_intervals(kind)),))).values()))


def _without_intervals(kind: Type) -> Type:
    if kind.element is not None:
        return Type(name="array", element=_without_intervals(kind.element))
    if kind.name == "struct":
        return Type(name="struct", fields=tuple((name, _without_intervals(field)) for name, field in kind.fields))
    return Type.of("bigint") if kind.name == "interval day to second" else kind


def _type_text(kind: Any) -> str:
    return str(kind.to_json()) if hasattr(kind, "to_json") else str(kind)

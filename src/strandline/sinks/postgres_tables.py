"""How tables of PostgreSQL are made, checked and written. Which types columns have, `postgres_values` says.

Rows that are added are copied straight into their table. Changes are copied, in the order of their keys, into a table
that is gone with the transaction, and merged from there: MERGE joins both tables, and takes half (of new rows) to three
quarters of the server's time of INSERT ... ON CONFLICT, which looks each key up. (A table that is kept and emptied saves
1 ms of 5 a tick, but would have to be looked after when a connection is lost, and pools that hand out servers by
transaction have none.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import polars as pl
from psycopg import errors, sql

from strandline.clients.postgres_session import Cursor
from strandline.errors import SinkError
from strandline.kernel.changes import DELETE
from strandline.sinks.contract import OP, Target
from strandline.sinks.dialects import LONGEST_NAME
from strandline.sinks.postgres_catalog import Named, columns_of, kind_of_relation, oid_of, unique_indexes_of
from strandline.sinks.postgres_copy import CSV, Format, own_format
from strandline.sinks.postgres_values import fits, kind_of
from strandline.sinks.table_checks import (
    KEY_INDEX,
    KEYED_TABLES,
    TICK,
    another_key,
    require_claim,
    require_columns,
    require_no_tick,
    require_table,
    several_rows,
)  # fmt: skip

MANY: Final = 10_000
"""Changes for which a join is given room."""
_ROOM_FOR_MANY: Final = 64 * 1024 * 1024
_ROOM: Final = (
    "SELECT set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), %s) / 1024 || 'kB', true)"
)
_DELETE: Final = sql.Literal(DELETE)
_STAGED: Final = sql.Identifier("pg_temp", "strandline_staged")

Names = Iterable[str]


class Table:
    """A table to which rows are added."""

    fill = 100
    """Percent of each page that rows are added to; the rest is left for later versions of its rows."""

    def __init__(self, named: Named, target: Target, nul: str | None) -> None:
        self.named, self.target, self.nul = named, target, nul
        self.columns: dict[str, str] = {name: kind_of(type) for name, type in target.delivered.columns}
        _require_short_names(target)

    def is_there(self, cursor: Cursor) -> bool:
        """Whether the name is taken, by this table or by something else."""
        return oid_of(cursor, self.named) is not None

    def prepare(self, cursor: Cursor) -> None:
        """Make the table, or check the one that is there."""
        oid = oid_of(cursor, self.named)
        if oid is None:
            made = sql.SQL("CREATE TABLE {} ({}) WITH (fillfactor = {})")
            cursor.execute(made.format(self.named.quoted, _declared(self.columns), self.fill))
        else:
            self._check(cursor, oid)

    def write(self, cursor: Cursor, tables: Iterable[pl.DataFrame], tick: int) -> int:
        """Add rows; how many there were."""
        return self._copy(cursor, self.named.quoted, tables, CSV)

    def taken_over(self, cursor: Cursor) -> None:
        """Rows that another incarnation added stay."""

    def _copy(self, cursor: Cursor, into: sql.Identifier, tables: Iterable[pl.DataFrame], format: Format) -> int:
        schema, heights = self.target.delivered, list[int]()
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})")
        with cursor.copy(statement.format(into, _listed(schema), sql.Identifier(format.name))) as copy:
            for piece in format.pieces(_counted(tables, heights), schema, self.nul):
                copy.write(piece)
        return sum(heights)

    def _check(self, cursor: Cursor, oid: int) -> None:
        """SinkError with all that differs, if anything does."""
        kind, survives = kind_of_relation(cursor, oid)
        require_table(self.named.name, kind)
        if not survives:
            raise SinkError(
                f"The table {self.named.name!r} is UNLOGGED: a crash of the server empties it, and the marker of {self.target} "
                "would still say that its rows are there.",
                fix="ALTER TABLE ... SET LOGGED, or name another table.",
            )
        found = columns_of(cursor, oid)
        computed = [f"{name!r} is computed by the database" for name, (_, generated) in found.items() if generated]
        kinds = {name: kind for name, (kind, _) in found.items()}
        require_columns(self.named.name, self.target, self.columns, kinds, fits, computed)


class KeyedTable(Table):
    """A table with one row for each key. Null is a key: the index is UNIQUE NULLS NOT DISTINCT."""

    # A row that is changed stays on its page, and in the index: 500,000 take 0.8 s of the server's time, not 2.4 s.
    fill = 50

    def __init__(self, named: Named, target: Target, nul: str | None) -> None:
        super().__init__(named, target, nul)
        require_no_tick(target, lambda name: name == TICK)
        self.columns = {name: kind for name, kind in self.columns.items() if name != OP}
        self.values = tuple(self.columns)
        self.columns[TICK] = "bigint"

    def prepare(self, cursor: Cursor) -> None:
        """Make the table and its key, or check those that are there."""
        new = not self.is_there(cursor)
        super().prepare(cursor)
        self._claim(cursor, new=new)
        oid = oid_of(cursor, self.named)
        assert oid is not None, "it was made, or was there"
        # An index stays with its table, and keeps its own name, when the table is renamed.
        indexes, key = unique_indexes_of(cursor, oid), frozenset(self.target.key)
        if any(each.name.startswith(KEY_INDEX) and each.columns != key for each in indexes):
            raise another_key(self.named.name, self.target)
        if not any(each.columns == key and each.tells_null for each in indexes):
            self._make_key(cursor, oid)

    def write(self, cursor: Cursor, tables: Iterable[pl.DataFrame], tick: int) -> int:
        """Put rows in the place of those with their keys, or delete those; how many there were."""
        delivered = self.target.delivered
        staged = _declared({name: kind_of(type) for name, type in delivered.columns})
        cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(_STAGED, staged))
        nulls: set[tuple[bool, ...]] = set()
        count = self._copy(cursor, _STAGED, self._in_order(tables, nulls), own_format(delivered))
        if count >= MANY:  # how many there are, the planner sees from the size of the table; ANALYZE would tell no more
            cursor.execute(_ROOM, (_ROOM_FOR_MANY,))
        # Values stand in the statements: beside parameters, a % in a name would be taken for the place of one.
        now = sql.Literal(tick)
        cursor.execute(self._merge(now))
        for null in sorted(nulls):
            cursor.execute(self._delete(null, now))
        if nulls:
            cursor.execute(self._upsert(now))
        return count

    def taken_over(self, cursor: Cursor) -> None:
        """The ticks of another incarnation say nothing about the age of rows in this one."""
        tick = sql.Identifier(TICK)
        cursor.execute(sql.SQL("UPDATE {} SET {} = -1 WHERE {} <> -1").format(self.named.quoted, tick, tick))

    def _make_key(self, cursor: Cursor, oid: int) -> None:
        name = f"{KEY_INDEX}{oid}"
        while oid_of(cursor, Named(self.named.schema, name)) is not None:
            name += "_"
        statement = sql.SQL("CREATE UNIQUE INDEX {} ON {} ({}) NULLS NOT DISTINCT")
        try:
            cursor.execute(statement.format(sql.Identifier(name), self.named.quoted, _listed(self.target.key)))
        except errors.UniqueViolation:
            raise several_rows(self.named.name, self.target) from None

    def _claim(self, cursor: Cursor, *, new: bool) -> None:
        place = Named(self.named.schema, KEYED_TABLES)
        if oid_of(cursor, place) is None:
            columns = sql.SQL('"table" text PRIMARY KEY, flow text NOT NULL, sink text NOT NULL')
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(place.quoted, columns))
        table, flow, sink = map(sql.Literal, (self.named.name, self.target.flow, self.target.sink))
        question = sql.SQL('SELECT flow, sink FROM {} WHERE "table" = {}').format(place.quoted, table)
        claimed = cursor.execute(question).fetchone()
        require_claim(self.named.name, self.target, claimed and (claimed[0], claimed[1]), new=new)
        cursor.execute(
            sql.SQL(
                'INSERT INTO {} VALUES ({}, {}, {}) ON CONFLICT ("table") DO UPDATE SET flow = excluded.flow, '
                "sink = excluded.sink"
            ).format(place.quoted, table, flow, sink)
        )

    def _in_order(self, tables: Iterable[pl.DataFrame], nulls: set[tuple[bool, ...]]) -> Iterator[pl.DataFrame]:
        """The tables, each sorted by key, so that neighbours are written together; and which parts of keys are null."""
        by = [name for name in self.target.key if self.target.schema[name].is_scalar]
        for table in tables:
            _require_no_nul(table.select(by), self.target)
            found = table.select(pl.col(self.target.key).is_null()).filter(pl.any_horizontal(pl.all()))
            nulls.update(found.unique().rows())
            yield table.sort(by) if by else table

    def _merge(self, now: sql.Literal) -> sql.Composed:
        """Do all changes of which no part of the key is null."""
        key, values = self.target.key, [name for name in self.values if name not in self.target.key]
        sets = [sql.SQL("{} = staged.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in values]
        return sql.SQL(
            "MERGE INTO {table} AS kept USING (SELECT * FROM {staged} WHERE {known}) AS staged ON {same} "
            "WHEN MATCHED AND kept.{tick} > {now} THEN DO NOTHING "
            "WHEN MATCHED AND staged.{op} = {delete} THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET {sets} "
            "WHEN NOT MATCHED AND staged.{op} <> {delete} THEN INSERT ({columns}) VALUES ({values}, {now})"
        ).format(
            table=self.named.quoted, staged=_STAGED, tick=sql.Identifier(TICK), op=sql.Identifier(OP),
            known=_all(sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in key),
            same=self._same([False] * len(key)), columns=_listed(self.columns),
            sets=sql.SQL(", ").join([*sets, sql.SQL("{} = {}").format(sql.Identifier(TICK), now)]),
            values=sql.SQL(", ").join(sql.Identifier("staged", name) for name in self.values), now=now, delete=_DELETE,
        )  # fmt: skip

    def _upsert(self, now: sql.Literal) -> sql.Composed:
        """Put rows with a null in their key in the place of others; a join knows no equal nulls, the index does."""
        changed = [sql.Identifier(name) for name in (*self.values, TICK) if name not in self.target.key]
        some = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(sql.Identifier(name)) for name in self.target.key)
        return sql.SQL(
            "INSERT INTO {table} AS kept ({columns}) SELECT {values}, {now} FROM {staged} "
            "WHERE {op} <> {delete} AND ({some}) ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE kept.{tick} <= excluded.{tick}"
        ).format(
            table=self.named.quoted, columns=_listed(self.columns), values=_listed(self.values), staged=_STAGED,
            op=sql.Identifier(OP), some=some, key=_listed(self.target.key), tick=sql.Identifier(TICK),
            sets=sql.SQL(", ").join(sql.SQL("{} = excluded.{}").format(name, name) for name in changed), now=now,
            delete=_DELETE,
        )  # fmt: skip

    def _delete(self, nulls: Sequence[bool], now: sql.Literal) -> sql.Composed:
        """Delete by keys of which just these parts are null; IS NOT DISTINCT FROM would find no index."""
        return sql.SQL(
            "DELETE FROM {} AS kept USING {} AS staged WHERE staged.{} = {} AND kept.{} <= {} AND {}"
        ).format(self.named.quoted, _STAGED, sql.Identifier(OP), _DELETE, sql.Identifier(TICK), now, self._same(nulls))

    def _same(self, nulls: Sequence[bool]) -> sql.Composed:
        return _all(
            sql.SQL("kept.{} IS NULL AND staged.{} IS NULL" if null else "kept.{} = staged.{}").format(
                sql.Identifier(name), sql.Identifier(name)
            )
            for name, null in zip(self.target.key, nulls, strict=True)
        )


def _require_no_nul(keys: pl.DataFrame, target: Target) -> None:
    """SinkError for a key with the character NUL: what stands for it (`nul=`) may make one key of two."""
    for key in keys.select(pl.col(pl.String)):
        if key.str.contains("\0", literal=True).any():
            raise SinkError(
                f"The column {key.name!r}, a key of {target}, holds the character NUL, which PostgreSQL cannot keep in text.",
                fix="Take it out of what comes, with .with_column(): replace(column, chr(0), '').",
            )


def _all(conditions: Iterable[sql.Composed]) -> sql.Composed:
    return sql.SQL(" AND ").join(conditions)


def _counted(tables: Iterable[pl.DataFrame], heights: list[int]) -> Iterator[pl.DataFrame]:
    for table in tables:
        heights.append(table.height)
        yield table


def _listed(names: Names) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _declared(columns: dict[str, str]) -> sql.Composed:
    # The types are our own words, of `postgres_values`; names are anybody's.
    each = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in columns.items()]
    return sql.SQL(", ").join(each)


def _require_short_names(target: Target) -> None:
    long = [name for name in target.delivered if len(name.encode()) > LONGEST_NAME]
    if long:
        raise SinkError(
            f"The column {long[0]!r} of {target} has a name of more than {LONGEST_NAME} bytes, which PostgreSQL would cut off.",
            fix="Rename it with .select().",
        )

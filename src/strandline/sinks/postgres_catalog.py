"""What PostgreSQL says of its tables, columns and indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from strandline.clients.postgres_session import Cursor

_KINDS: Final = {
    "r": "table", "p": "table", "v": "view", "m": "materialised view", "f": "foreign table", "S": "sequence",
    "i": "index", "I": "index", "c": "type", "t": "table of another one's",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Named:
    """A table by its schema and its name.

    >>> print(Named("shop", 'to"tals').quoted.as_string(None))
    "shop"."to""tals"
    """

    schema: str
    name: str

    @property
    def quoted(self) -> sql.Identifier:
        """The name as SQL takes it."""
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A unique index that an upsert can go by. `tells_null` says that one null is as good as another to it."""

    name: str
    columns: frozenset[str]
    tells_null: bool


def oid_of(cursor: Cursor, table: Named) -> int | None:
    """What PostgreSQL knows a table by, whatever it is called later; None if nothing has the name."""
    found = _one(
        cursor,
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        (table.schema, table.name),
    )
    return None if found is None else int(found[0])


def kind_of_relation(cursor: Cursor, oid: int) -> tuple[str, bool]:
    """What stands under a name: a table, or perhaps a view; and whether a crash of the server leaves it as it was."""
    found = _one(cursor, "SELECT relkind::text, relpersistence = 'p' FROM pg_class WHERE oid = %s", (oid,))
    assert found is not None, "its oid was read in the same transaction"
    return _KINDS.get(found[0], "thing of another kind"), bool(found[1])


def columns_of(cursor: Cursor, oid: int) -> dict[str, tuple[str, bool]]:
    """The type of each column, and whether the database computes it."""
    cursor.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attgenerated <> '' FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (oid,),
    )
    return {name: (kind, generated) for name, kind, generated in cursor.fetchall()}


def unique_indexes_of(cursor: Cursor, oid: int) -> list[Index]:
    """The unique indexes over columns of a table, without conditions."""
    cursor.execute(
        "SELECT c.relname, array_agg(a.attname::text), i.indnullsnotdistinct OR bool_and(a.attnotnull) "
        "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place) "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        "WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate "
        "AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts "
        "GROUP BY c.relname, i.indnullsnotdistinct ORDER BY c.relname",
        (oid,),
    )
    found = cursor.fetchall()
    return [Index(name=name, columns=frozenset(names), tells_null=tells) for name, names, tells in found]


def schema_of(cursor: Cursor, asked: str | None) -> str | None:
    """The schema of that name; without a name that in which tables are made; None if there is none."""
    if asked is None:
        found = _one(cursor, "SELECT current_schema()::text", ())
    else:
        found = _one(cursor, "SELECT nspname FROM pg_namespace WHERE nspname = %s", (asked,))
    return None if found is None else found[0]


def _one(cursor: Cursor, question: Any, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return cursor.execute(question, given).fetchone()

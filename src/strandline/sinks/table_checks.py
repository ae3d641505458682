"""What is said of a table that cannot be written, the same for every database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from strandline.errors import SinkError
from strandline.sinks.contract import ACKNOWLEDGE, Target

TICK: Final = "_tick"
KEYED_TABLES: Final = "strandline_keyed_tables"
"""Who upserts which table: an upsert is guarded by the tick that a row has, which means something within one sink only."""
KEY_INDEX: Final = "strandline_key_"


def require_table(name: str, kind: str) -> None:
    """Refuse a name under which something else stands."""
    if kind != "table":
        raise SinkError(f"{name!r} is a {kind}, no table.", fix="Name a table, or a name that is free.")


def require_no_tick(target: Target, is_tick: Callable[[str], bool]) -> None:
    """Refuse a column of the name that a table with one row for each key needs."""
    if any(map(is_tick, target.schema)):
        raise SinkError(
            f"{target} delivers a column {TICK!r}, which the table needs for itself.", fix="Rename it with .select()."
        )


def require_columns(
    name: str,
    target: Target,
    wanted: Mapping[str, str],
    found: Mapping[str, str],
    fits: Callable[[str, str], bool],
    more: Iterable[str] = (),
) -> None:
    """SinkError with all that differs, if anything does. `fits(kind, found)`: whether values of a kind stay as they are.

    Both give the kind of each column, under the name by which the database knows it. `more` are faults found already.

    >>> target = Target(flow="f", sink="s", incarnation="i", schema={})
    >>> require_columns("t", target, {"k": "TEXT"}, {"n": "TEXT"}, str.__eq__)
    Traceback (most recent call last):
        ...
    strandline.errors.SinkError: The table 't' does not fit the sink 's' of the flow 'f': 'k' is missing; 'n' is there, but
    not delivered.
      fix: Name another table, choose columns with .sink(columns=...), or make it with ("k" TEXT).
    """
    wrong = [f"{column!r} is missing" for column in wanted if column not in found]
    wrong += [f"{column!r} is there, but not delivered" for column in found if column not in wanted]
    wrong += [
        f"{column!r} is {found[column]}, not {kind}"
        for column, kind in wanted.items()
        if column in found and not fits(kind, found[column])
    ]
    wrong += more
    if wrong:
        columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in wanted.items())
        raise SinkError(
            f"The table {name!r} does not fit {target}: {'; '.join(wrong)}.",
            fix=f"Name another table, choose columns with .sink(columns=...), or make it with ({columns}).",
        )


def require_claim(name: str, target: Target, claimed: tuple[str, str] | None, *, new: bool) -> None:
    """Refuse a table that another sink upserts, unless it was made just now or is taken over."""
    if claimed is None or claimed == (target.flow, target.sink) or new or target.acknowledged:
        return
    raise SinkError(
        f"The table {name!r} is upserted by the sink {claimed[1]!r} of the flow {claimed[0]!r}; {target} would "
        "overwrite its rows.",
        fix=f"Name another table; or {ACKNOWLEDGE}, and this sink takes it over.",
    )


def several_rows(name: str, target: Target) -> SinkError:
    """A key that does not tell the rows of a table apart."""
    return SinkError(
        f"The table {name!r} holds several rows for one key of {target}: {', '.join(target.key)}.",
        fix="Remove them, choose another key, or name another table.",
    )


def another_key(name: str, target: Target) -> SinkError:
    """A table whose rows another key tells apart."""
    return SinkError(
        f"The table {name!r} was made for another key than that of {target}: {', '.join(target.key)}.",
        fix="Name another table, or the key that it was made for.",
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever stands in it.

    >>> print(quoted('a"b c'))
    "a""b c"
    """
    return '"' + name.replace('"', '""') + '"'

"""The judge stands outside: it knows the generator's list and reads the sinks; of the engine it asks nothing."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.orders import BOUND, LATENESS, MINUTE, TOTAL, events, state_of
from strandline.model.time import Instant, Span
from strandline.sinks.reading import read_files
from strandline.store.journal import records
from strandline.store.storage import storage_at

Rows = Counter[tuple[Any, ...]]
Sinks = Mapping[str, Rows]

TABLES: Final = {"table": "per_minute", "visits": "visits", "totals": "totals"}
FOLDERS: Final = ("changes", "late", "rejected", "copies")
ADDED_TO: Final = ("totals", *FOLDERS)  # rows that are there stay; those of an upserted table come and go


@dataclass(frozen=True, slots=True)
class Verdict:
    """How what was found differs from what should be there, in rows."""

    lost: int = 0
    duplicated: int = 0
    wrong: int = 0

    @property
    def fine(self) -> bool:
        return self == Verdict()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(self.lost + other.lost, self.duplicated + other.duplicated, self.wrong + other.wrong)


def read_sinks(folder: Path) -> Sinks:
    """Every row of every sink, and how often it is there."""
    found = {name: Counter(rows_of_table(folder, table)) for name, table in TABLES.items()}
    return found | {name: rows_of_files(folder / name) for name in FOLDERS}


def rows_of_table(folder: Path, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table in the database of a run."""
    path = folder / "results.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        there = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        return database.execute(f"SELECT * FROM {table}").fetchall() if there else []


def rows_of_files(folder: Path) -> Rows:
    """The rows that a sink of files has, and how often."""
    if not folder.exists() or not any(folder.rglob("owner.json")):
        return Counter()
    return Counter(tuple(map(_hashable, row)) for row in read_files(folder).iter_rows())


def _hashable(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, list | dict) else value


def compared(found: Sinks, expected: Sinks) -> Verdict:
    """What is lost, there too often, or should not be there at all."""
    return sum((differing(found[name], rows) for name, rows in expected.items()), Verdict())


def compared_so_far(found: Sinks, expected: Sinks, added_to: Sequence[str]) -> Verdict:
    """The same for a run that is not over: what is still missing may come."""
    so_far = [differing(found[name], expected[name]) for name in added_to]
    return Verdict(duplicated=sum(each.duplicated for each in so_far), wrong=sum(each.wrong for each in so_far))


def differing(found: Rows, expected: Rows) -> Verdict:
    """What is lost, there too often, or should not be there at all, of one sink."""
    excess = found - expected
    wrong = sum(count for row, count in excess.items() if row not in expected)
    return Verdict(lost=(expected - found).total(), duplicated=excess.total() - wrong, wrong=wrong)


# -- what plain Python makes of the list ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, without streams: sums of the windows that are over, which events were too late, which unreadable."""

    per_minute: Rows
    totals: Rows
    late: Rows
    rejected: Rows
    copies: Rows


def answer() -> Answer:
    """Add up the generator's list, tick by tick, with a watermark that is a single number."""
    bound, minute, lateness, total = (int(Span.of(text)) for text in (BOUND, MINUTE, LATENESS, TOTAL))
    watermark = greatest = -(2**62)
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    late, rejected, copies = Rows(), Rows(), Rows()
    for rows, unreadable in events():
        rejected.update((raw,) for raw in unreadable)
        for key, cents, n, at in rows:
            copies[key, cents, n] += 1
            start = at - at % minute
            if start + minute + lateness <= watermark:
                late[(n,)] += 1
            else:
                count, before = sums.get((key, start), (0, 0))
                sums[key, start] = (count + 1, before + cents)
        greatest = max([greatest, *(at for _, _, _, at in rows)])
        watermark = max(watermark, greatest - bound)
    over = {place: each for place, each in sums.items() if place[1] + minute <= watermark}
    per_minute = Rows((key, _text(start), *each) for (key, start), each in over.items())
    spans = {start - start % total for _, start in over}
    whole = [start for start in spans if start + total <= watermark]
    totals = Rows((_text(start), *_summed(over, start, start + total)) for start in whole)
    return Answer(per_minute, totals, late, rejected, copies)


def _summed(over: Mapping[tuple[str, int], tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    mine = [each for (_, at), each in over.items() if start <= at < end]
    return sum(count for count, _ in mine), sum(cents for _, cents in mine)


def _text(micros: int) -> str:
    return f"{Instant(micros).text[:19]}.000000Z"


def found_answer(folder: Path) -> Answer:
    """What the sinks say to the same questions: of the windows that are over, those that still stand."""
    with closing(sqlite3.connect(folder / "results.db")) as database:
        per_minute = database.execute(
            "SELECT key, window_start, orders, cents FROM per_minute WHERE pane_timing <> 'early'"
        ).fetchall()
        changes = database.execute("SELECT op, window_start, orders, cents FROM totals").fetchall()
    totals = _told(changes, "insert") - _told(changes, "retract")
    late = read_files(folder / "late")["n"].to_list()
    rejected = read_files(folder / "rejected")["raw"].to_list()
    copies = read_files(folder / "copies").select("key", "cents", "n").rows()
    return Answer(Rows(per_minute), totals, Rows((n,) for n in late), Rows((raw,) for raw in rejected), Rows(copies))


def _told(changes: list[tuple[Any, ...]], op: str) -> Rows:
    return Rows(each[1:] for each in changes if each[0] == op)


def agreement(found: Answer, expected: Answer) -> Verdict:
    """How the sinks differ from what plain Python says."""
    pairs = [(getattr(found, name), getattr(expected, name)) for name in Answer.__slots__]
    return sum((differing(each, right) for each, right in pairs), Verdict())


# -- what the journal says --------------------------------------------------------------------------------------


def journal(folder: Path) -> list[dict[str, Any]]:
    """The records of the flow's ticks."""
    state = state_of(folder)
    return list(records(storage_at(state))) if state.exists() else []


def recoveries(folder: Path) -> dict[int, float]:
    """For each tick with which a run began: the seconds from the start of that run until it was committed."""
    return {each["tick"]: each["took"]["recovery"] / 1e6 for each in journal(folder) if "recovery" in each["took"]}

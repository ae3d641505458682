"""The flow that faults are done to, small and with everything in it.

It shows panes early, on time and late, takes them back, has late and unreadable rows, a second stage behind the first,
sessions behind a transform, a database and files as sinks, one of them allowed to lag. Each of its files is one tick, so
that any number of restarts makes the same ticks, and nothing depends on processing time. `python -m chaos.orders FOLDER
[MASTER]` runs it from where its state in the folder says it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import strandline as sl
from strandline.errors import StrandlineError
from strandline.sources.contract import Limit
from strandline.sources.files import FileSource
from strandline.spark.session import session

TICKS: Final = 14
ROWS: Final = 240  # in each tick
EVENTS: Final = sl.Generator(
    seed=11, rows=TICKS * ROWS, rate=6, keys=5, skew=0.5, start="2026-01-01T12:00:00Z",
    disorder="10s", late_share=0.04, late_by="90s", malformed_share=0.01,
)  # fmt: skip
NOTE: Final = "." * 3_000  # makes what a task sends too much for a message: it travels in files
SCHEMA: Final = "key string, cents bigint, n bigint, at timestamp, note string"
BOUND, MINUTE, LATENESS, TOTAL, GAP = "10s", "1m", "1m", "3m", "3s"

NAMED_ERROR: Final = 3  # the exit code of a run that ended with an error of ours

Event = tuple[str, int, int, int]  # key, cents, n, and the time in microseconds


def events() -> Iterator[tuple[list[Event], list[str]]]:
    """The generator's list, tick by tick: what can be read, and what cannot."""
    reader = EVENTS.reader()
    start = reader.first()
    for _ in range(TICKS):
        end = reader.latest(start, Limit(rows=ROWS))
        pieces = [piece for part in reader.parts(start, end, 1) for piece in reader.read(part)]
        times = [row for piece in pieces for row in piece.rows["at"].to_physical().to_list()]
        rows = [row for piece in pieces for row in piece.rows.iter_rows(named=True)]
        found = [(row["key"], int(row["value"] * 100), row["n"], at) for row, at in zip(rows, times, strict=True)]
        yield found, [raw for piece in pieces if piece.malformed is not None for raw in piece.malformed["raw"]]
        start = end


def write_events(folder: Path) -> None:
    """The list as files of JSON, one for each tick, in the order of their times of change."""
    folder.mkdir(parents=True)
    for tick, (rows, unreadable) in enumerate(events()):
        lines = [json.dumps(_line(row)) for row in rows]
        path = folder / f"{tick:02}.json"
        path.write_text("\n".join([*lines, *unreadable]) + "\n")
        os.utime(path, (1_700_000_000 + tick, 1_700_000_000 + tick))


def _line(row: Event) -> dict[str, Any]:
    key, cents, n, at = row
    return {"key": key, "cents": cents, "n": n, "at": sl.Instant(at).text, "note": NOTE}


def make_flow(folder: Path, source: Any = None) -> sl.Flow:
    """The flow whose state and results are in a folder; the events lie in `events` beside it."""
    flow = sl.Flow("orders")
    orders = flow.source("orders", source or files(folder), time="at", watermark=sl.Bounded(BOUND))
    trigger = sl.AfterWatermark(early=sl.AfterCount(20), late=sl.AfterCount(1))
    per_minute = (
        orders.key_by("key")
        .window(sl.Tumbling(MINUTE), trigger=trigger, lateness=LATENESS, mode="retracting")
        .aggregate("per_minute", orders=sl.Count(), cents=sl.Sum("cents"))
    )
    totals = (
        per_minute.key_by()
        .window(sl.Tumbling(TOTAL), mode="retracting")
        .aggregate("totals", orders=sl.Sum("orders"), cents=sl.Sum("cents"))
    )
    visits = (
        orders.transform(_worth_something)
        .key_by("key")
        .window(sl.Session(GAP), trigger=trigger, lateness=LATENESS, mode="accumulating")
        .aggregate("visits", orders=sl.Count(), cents=sl.Sum("cents"))
    )
    database = sl.Database(f"sqlite:///{folder.resolve() / 'results.db'}")
    per_minute.sink("table", database.write("per_minute"), rows="upsert")
    totals.sink("totals", database.write("totals"), rows="changelog")
    visits.sink("visits", database.write("visits"), rows="upsert")
    per_minute.sink("changes", sl.Files(folder / "changes").write(layout="log"), rows="changelog", max_lag=3)
    per_minute.late.sink("late", sl.Files(folder / "late").write(format="json"))
    orders.rejected.sink("rejected", sl.Files(folder / "rejected").write(format="json"))
    orders.sink("copies", sl.Files(folder / "copies").write(layout="log"))
    return flow


def _worth_something(orders: Any) -> Any:
    return orders.where("cents > 100")


def files(folder: Path) -> FileSource:
    """The source: a file in each tick."""
    return sl.Files(folder.parent / "events").read(format="json", schema=SCHEMA, max_files_per_tick=1)


def state_of(folder: Path) -> Path:
    """Where the state of a flow in a folder is."""
    return folder / "state"


def run(folder: Path, spark: Any = None, source: Any = None, **options: Any) -> sl.Run:
    """Run the flow until everything is read."""
    flow = make_flow(folder, source)
    return flow.run(state=state_of(folder), spark=spark, until="caught_up", batch_interval="0s", **options)


def main() -> None:
    """Run, on the master that is named if one is, and say by the exit code how it ended."""
    folder, *master = sys.argv[1:]
    try:
        run(Path(folder), session(name="orders", master=master[0]) if master else None)
    except StrandlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NAMED_ERROR)


if __name__ == "__main__":
    main()

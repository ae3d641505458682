"""The flows: one for each operator, and one that chains all of them.

Each file of a source is one tick, and nothing depends on processing time, so that any number of restarts makes the same
ticks. `python -m chaos.operators.flows FOLDER [MASTER]` runs the one with all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import polars as pl

import strandline as sl
from chaos.operators.events import BOUND, SCHEMAS
from chaos.orders import NAMED_ERROR, state_of
from strandline.errors import StrandlineError
from strandline.spark.session import session

ALL: Final = "all"
LATE: Final = "late"

Streams: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[str], Any]


class Streak(sl.Process):
    """Numbers the rows of a user, and tells when one has been silent for a minute."""

    count = sl.Value("bigint", 0)
    silent = sl.Timer("1m")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """The row's number."""
        self.count += 1
        self.silent.set(after="1m")
        out.emit(user=event["user"], number=self.count)

    def on_timer(self, timer: str, out: Any) -> None:
        """Silence."""
        out.emit(out.key, number=-self.count)
        self.count = 0


class Totals(sl.TableProcess):
    """The number of rows of a user so far, in columns."""

    count = sl.Value("bigint", 0)

    def on_events(self, events: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Each row with its number; the state is the last one."""
        so_far = events.join(state, on="user", maintain_order="left").with_columns(
            number=pl.col("count") + pl.int_range(1, pl.len() + 1).over("user")
        )
        return so_far.select("user", "number", "__time"), so_far.group_by("user").agg(count=pl.col("number").max())


async def tier_of(user: str) -> str | None:
    """Who is asked, and knows nothing of one, and refuses another."""
    if user == "eve":
        raise sl.DataError("Eve is not for sale.", fix="Ask for somebody else.")
    return {"ann": "gold", "bob": "silver"}.get(user)


STREAK: Final = "user string, number bigint"
FAILURES: Final = sl.sequence(sl.step("fail", "not success").times(3).consecutive(), within="2m")


def _dedupe(_flow: sl.Flow, read: Read) -> Streams:
    once = read("clicks").dedupe("once", on="id", within="3m")
    return {"rows": once, LATE: once.late}


def _join(_flow: sl.Flow, read: Read) -> Streams:
    paid = read("clicks").key_by("user").join("paid", read("orders").key_by("user"), within=sl.After("30s"), how="full")
    return {"rows": paid, LATE: paid.late}


def _first_match(_flow: sl.Flow, read: Read) -> Streams:
    right = read("orders").key_by("user")
    paid = read("clicks").key_by("user").join("paid", right, within=sl.Around("1m"), match="first", how="left")
    return {"rows": paid, LATE: paid.late}


def _window_join(_flow: sl.Flow, read: Read) -> Streams:
    windows = sl.SameWindow(sl.Tumbling("30s"))
    paid = read("clicks").key_by("user").join("paid", read("orders").key_by("user"), within=windows, how="left")
    return {"rows": paid, LATE: paid.late}


def _table(flow: sl.Flow, read: Read) -> Streams:
    return {"changes": flow.table("rate", read("rates"), key="currency", order="rate").changes}


def _table_join(flow: sl.Flow, read: Read) -> Streams:
    table = flow.table("rate", read("rates"), key="currency")
    return {"rows": read("orders").join_table("priced", table, on="currency")}


def _as_of(flow: sl.Flow, read: Read) -> Streams:
    table = flow.table("rate", read("rates"), key="currency")
    priced = read("orders").join_table("priced", table, on="currency", as_of=True)
    return {"rows": priced, LATE: priced.late}


def _features(_flow: sl.Flow, read: Read) -> Streams:
    orders = read("orders").key_by("user")
    found = orders.over("features", n_1m=sl.Count(within="1m"), most_3m=sl.Max("amount", within="3m"))
    return {"changes": found, LATE: found.late}


def _process(_flow: sl.Flow, read: Read) -> Streams:
    found = read("clicks").key_by("user").process("streaks", Streak, output=STREAK, order="event_time")
    return {"rows": found, LATE: found.late}


def _table_process(_flow: sl.Flow, read: Read) -> Streams:
    found = read("clicks").key_by("user").process("totals", Totals, output=STREAK)
    return {"rows": found}


def _pattern(_flow: sl.Flow, read: Read) -> Streams:
    found = read("clicks").key_by("user").detect("failures", FAILURES)
    return {"rows": found, LATE: found.late}


def _lookup(_flow: sl.Flow, read: Read) -> Streams:
    tiers = read("clicks").lookup("tiers", tier_of, on="user", output="tier string")
    return {"rows": tiers, "rejected": tiers.rejected}


def _all(flow: sl.Flow, read: Read) -> Streams:
    """Clicks, each once, meet orders, which have the rates of their time; features, a process, a window, and a table."""
    once = read("clicks").dedupe("once", on="id", within="3m")
    clicks = once.lookup("tiers", tier_of, on="user", output="tier string")
    table = flow.table("rate", read("rates"), key="currency")
    paid = clicks.key_by("user").join("paid", read("orders").key_by("user"), within=sl.After("20s"), how="left")
    priced = paid.join_table("priced", table, on="currency", as_of=True).with_column("value", "amount * rate")
    features = priced.key_by("user").over("features", n_1m=sl.Count(within="1m"), emit="watermark")
    streaks = features.key_by("user").process("streaks", Streak, output=STREAK, order="event_time")
    sums = streaks.key_by("user").window(sl.Tumbling("2m")).aggregate("sums", n=sl.Count(), most=sl.Max("number"))
    failures = clicks.key_by("user").detect("failures", FAILURES)
    return {
        "features": features, "streaks": streaks, "sums": sums, "failures": failures, "changes": table.changes,
        "rejected": clicks.rejected, "late-clicks": once.late, "late-pairs": paid.late,
    }  # fmt: skip


FLOWS: Final[Mapping[str, Callable[[sl.Flow, Read], Streams]]] = {
    "dedupe": _dedupe, "join": _join, "first match": _first_match, "window join": _window_join, "table": _table,
    "join with a table": _table_join, "as-of join": _as_of, "features": _features, "process": _process,
    "process in columns": _table_process, "pattern": _pattern, "lookup": _lookup, ALL: _all,
}  # fmt: skip


def make_flow(name: str, folder: Path) -> tuple[sl.Flow, Streams]:
    """A flow whose state and results are in a folder, with a sink for each of its streams; the events lie beside it."""
    flow = sl.Flow(name.replace(" ", "-"))

    def read(source: str) -> Any:
        files = sl.Files(folder.parent / "events" / source).read(
            format="json", schema=SCHEMAS[source], max_files_per_tick=1
        )
        return flow.source(source, files, time="at", watermark=sl.Bounded(BOUND))

    streams = FLOWS[name](flow, read)
    for each, stream in streams.items():
        rows: Any = "changelog" if each == "changes" else "append"
        stream.sink(each, sl.Files(folder / each).write(layout="log"), rows=rows)
    return flow, streams


def run(name: str, folder: Path, spark: Any = None, **options: Any) -> sl.Run:
    """Run a flow until everything is read."""
    flow, _ = make_flow(name, folder)
    return flow.run(state=state_of(folder), spark=spark, until="caught_up", batch_interval="0s", **options)


def main() -> None:
    """Run, on the master that is named if one is, and say by the exit code how it ended."""
    folder, *master = sys.argv[1:]
    try:
        run(ALL, Path(folder), session(name="operators", master=master[0]) if master else None)
    except StrandlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NAMED_ERROR)


if __name__ == "__main__":
    main()

"""What explain says of size is a bound that holds, and no idle one: state is counted while the kernel plays a stream."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

import strandline as sl
from strandline.kernel.frames import framed
from strandline.kernel.schema import polars_schema
from strandline.kernel.stage import StageKernel
from strandline.kernel.stateful import plan_of
from strandline.model.latency import waits_in_words
from strandline.model.lineage import inputs_of
from strandline.model.nodes import Stateful
from strandline.model.panes import TIME
from strandline.model.sizes import Load, RowBytes, Size, size_in_words, size_of
from strandline.model.ticks import Edge
from strandline.operations.sizing import row_bytes
from tests.model.large import large
from tests.model.sinking import orders, stage

RATE, KEYS, SECONDS, STEP = 10, 30, 600, 20
LOAD = Load(rate=RATE, keys=KEYS, tick=sl.Span.of(f"{STEP}s"))
NOON = int(sl.Instant.of("2026-01-01T12:00:00Z"))
BOUND = sl.Bounded("20s")


def keyed() -> sl.Keyed:
    return orders("user string, n bigint, at timestamp", watermark=BOUND).key_by("user")


def windowed(window: Any, **options: Any) -> sl.Stage:
    return keyed().window(window, **options).aggregate("one", total=sl.Sum("n"))


class Count(sl.Process):
    """Remembers how often each key came."""

    seen: Any = sl.Value("bigint", 0)

    def on_event(self, event: Any, out: Any) -> None:
        self.seen += 1


def joined(within: Any, **options: Any) -> sl.Stage:
    ours = keyed()
    theirs = ours.stream.flow.source(
        "o", sl.Rows(schema="user string, page string, at timestamp"), time="at", watermark=BOUND
    )
    return ours.join("one", theirs.key_by("user"), within=within, **options, suffix="_o")


def with_a_table() -> sl.Stage:
    ours = keyed()
    changes = ours.stream.flow.source(
        "o", sl.Rows(schema="user string, page string, at timestamp"), time="at", watermark=BOUND
    )
    table = ours.stream.flow.table("pages", changes, key="user")
    return ours.stream.join_table("one", table, on="user", as_of=True, suffix="_o")


RISES = sl.sequence(sl.step("low", "n % 7 = 0"), sl.step("high", "n % 7 = 6"), within="1m")
EARLY = sl.AfterWatermark(early=sl.AfterCount(1))
WINDOWS, KEYED, EACH = ("hash", "window_end"), ("hash",), ()
# Each with the share of the bound that the stream below must come to, and the columns by which rows of state are one.
STAGES: dict[str, tuple[sl.Stage, float, tuple[str, ...]]] = {
    "tumbling": (windowed(sl.Tumbling("1m")), 0.5, WINDOWS),
    "tumbling with lateness": (windowed(sl.Tumbling("1m"), lateness="5m"), 0.7, WINDOWS),
    "hopping": (windowed(sl.Hopping("3m", every="1m")), 0.5, WINDOWS),
    "hopping with lateness": (windowed(sl.Hopping("3m", every="1m"), lateness="2m"), 0.5, WINDOWS),
    "hopping with early panes": (windowed(sl.Hopping("3m", every="1m"), trigger=EARLY), 0.5, WINDOWS),
    "few events for a key": (windowed(sl.Tumbling("1s"), lateness="10s"), 0.3, WINDOWS),
    "sessions": (windowed(sl.Session("10s"), lateness="1m"), 0.1, WINDOWS),
    "for a while": (windowed(sl.Global(ttl="5m"), trigger=sl.Repeatedly(sl.AfterCount(1))), 0.9, WINDOWS),
    "features": (keyed().over("one", n=sl.Count(within="2m"), emit="watermark"), 0.7, EACH),
    "pattern": (keyed().detect("one", RISES), 0.2, EACH),
    "dedupe": (keyed().stream.dedupe("one", on=["user", "n"], within="2m"), 0.7, EACH),
    "join": (joined(sl.Before("2m")), 0.5, EACH),
    "join that waits": (joined(sl.Between("-1m", "2m"), how="full"), 0.3, EACH),
    "join by windows": (joined(sl.SameWindow(sl.Tumbling("2m"))), 0.05, EACH),
    "join with a table": (with_a_table(), 0.1, EACH),
    "process by event time": (
        keyed().process("one", Count, output="user string", order="event_time", ttl=sl.TTL("1m")),
        0.05,
        EACH,
    ),
    "process": (keyed().process("one", Count, output="user string", ttl=sl.TTL("1m")), 0.9, KEYED),
}


def kept(state: Any, by: tuple[str, ...]) -> int:
    """The rows of a state, each once however many segments it stands in."""
    frames = [segment.frame() for segments in state.slices.values() for segment in segments]
    if not frames:
        return 0
    rows = pl.concat(frames)
    return rows.unique(list(by)).height if by else rows.height


def arriving(node: Stateful, start: int, chance: random.Random) -> list[pl.DataFrame]:
    """Rows of one tick for each port."""
    inputs = inputs_of(node)
    assert inputs is not None
    tables = []
    for schema in inputs:
        types = {**polars_schema(schema), TIME: pl.Int64()}
        rows = [
            {"user": f"u{chance.randrange(KEYS)}", "n": start * RATE + at, "page": "p", TIME: NOON + start * 1_000_000 + at * 1_000_000 // RATE}
            for at in range(STEP * RATE)
        ]  # fmt: skip
        tables.append(
            framed({each: pl.Series([row.get(each) for row in rows], dtype=kind) for each, kind in types.items()})
        )
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_no_more_is_kept_than_is_said_and_not_much_less(name: str) -> None:
    panes, least, by = STAGES[name]
    node = panes.node
    assert isinstance(node, Stateful)
    kernel, chance = StageKernel(plan_of(panes.flow, node), buckets=4), random.Random(7)
    edge, most = Edge.first(), 0
    for start in range(0, SECONDS, STEP):
        seen = sl.Instant(NOON + (start + STEP) * 1_000_000 - 1_000_000 // RATE)
        edge = edge.moved_to(sl.Instant(seen - BOUND.delay), seen)
        tables = arriving(node, start, chance)
        kernel.tick(tables, edge, seen)
        most = max(most, kept(kernel.state, by))
    said = size_of(node, LOAD).rows
    assert said is not None
    # A tick takes its rows before it forgets others.
    assert least * said <= most <= said + STEP * RATE * len(tables)


@pytest.mark.parametrize("node", [n for n in large().nodes if isinstance(n, Stateful)], ids=lambda node: node.name)
def test_every_kind_of_stage_has_a_size_and_a_delay(node: Stateful) -> None:
    size = size_of(node, LOAD)
    assert size.words
    assert size.rows is not None
    assert [*waits_in_words(node)]


def test_keys_and_rate_both_bound_the_rows() -> None:
    node = stage(sl.Tumbling("1m")).node
    few, many = (size_of(node, Load(rate=rate, keys=1000)) for rate in (1, 1_000_000))  # type: ignore[arg-type]
    assert (few.rows, many.rows) == (60, 1000)
    assert many.events_per_row == 60_000


def test_bytes_are_measured_and_what_grows_with_its_events_is_said_to() -> None:
    flat = stage(sl.Tumbling("1m"))
    growing = orders().key_by("user").window(sl.Tumbling("1m")).aggregate("all", all=sl.Collect("n"))
    one, other = (row_bytes(each.flow, each.node) for each in (flat, growing))  # type: ignore[arg-type]
    assert one is not None
    assert other is not None
    assert one.more < 1 < other.more
    assert 40 < one.one < 400
    assert one.times > 1


def test_a_row_that_was_measured_takes_what_rows_of_other_events_take() -> None:
    """What is measured on a few made-up rows is what a state of many others comes to."""
    panes = windowed(sl.Tumbling("1m"))
    measured = row_bytes(panes.flow, panes.node)  # type: ignore[arg-type]
    assert measured is not None
    kernel = StageKernel(plan_of(panes.flow, panes.node), buckets=4)  # type: ignore[arg-type]
    rows = [{"user": f"customer{number:04}", "n": number, TIME: NOON} for number in range(5000)]
    table = framed({
        "user": pl.Series([row["user"] for row in rows]), "n": pl.Series([row["n"] for row in rows], dtype=pl.Int64()),
        "at": pl.Series([NOON] * 5000).cast(pl.Datetime("us", "UTC")), TIME: pl.Series([NOON] * 5000),
    })  # fmt: skip
    kernel.tick(table, Edge.first(), sl.Instant(NOON))
    assert len(kernel.encode()) / 5000 == pytest.approx(measured.one, rel=0.2)


def test_sizes_in_words() -> None:
    assert size_in_words(Size(rows=0, words="it remembers nothing"), None) == ["it remembers nothing."]
    assert size_in_words(Size(rows=None, words="nothing says how long"), RowBytes(one=9)) == ["nothing says how long."]
    assert "not known before it runs" in size_in_words(Size(rows=10, words="10 keys"), None)[1]
    big = size_in_words(Size(rows=10**10, words="many"), RowBytes(one=1024.0, more=9.0))
    assert big[0] == "at most 10,000,000,000 rows, about 9.3 TiB: many."
    assert "of one event, and 9 for each further one" in big[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": sl.Tumbling("1m")}, "An event waits for that from 20s (the bound) to 1m20s"),
        ({"window": sl.Session("5m")}, "5m and 20s (the bound) past the last one of the session"),
        ({"window": sl.Global(), "trigger": sl.Repeatedly(sl.AfterCount(3)), "allow_loss": True}, "once 3 new events have come"),
        ({"window": sl.Global()}, "when the input ends"),
        ({"window": sl.Tumbling("1m"), "trigger": sl.AfterClose(), "lateness": "1h"}, "that is 1h20s (lateness and bound) past"),
        ({"window": sl.Tumbling("1m"), "trigger": sl.AfterWatermark(early=sl.AfterProcessingTime("10s"))}, "Early: 10s by the clock"),
    ],
)  # fmt: skip
def test_when_results_come_is_said_with_the_numbers_of_the_flow(options: dict[str, Any], said: str) -> None:
    assert said in " ".join(waits_in_words(windowed(**options).node))  # type: ignore[arg-type]

"""Connections cut, processes killed, two who publish at once: every tick once, as if nothing had happened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pytest

from strandline.errors import SinkError
from strandline.sinks.contract import Delivery, Target
from strandline.sinks.database import DatabaseSink
from strandline.sinks.postgres import PostgresPublisher
from tests.proxy import Proxy
from tests.sinks.cluster import Cluster, own_cluster
from tests.sinks.databases import PostgresBase, opened
from tests.sinks.delivering import CHANGES, TARGET, delivery, delivery_of

KINDS = {"append": TARGET, "upsert": CHANGES}
FIRST: dict[str, list[tuple[Any, ...]]] = {
    "append": [("a", 1), ("b", 1)],
    "upsert": [("a", 1, "upsert"), ("b", 1, "upsert")],
}
SECOND: dict[str, list[tuple[Any, ...]]] = {
    "append": [("a", 2), (None, 2)],
    "upsert": [("a", 2, "upsert"), ("b", None, "delete"), (None, 2, "upsert")],
}
AFTERWARDS = {"append": [("a", 1), ("a", 2), ("b", 1), (None, 2)], "upsert": [("a", 2), (None, 2)]}
COMMIT = b"COMMIT\0"  # the whole statement: BEGIN says READ COMMITTED
STATEMENTS = (
    b"BEGIN",
    b"pg_backend_pid",
    b"ON CONFLICT DO NOTHING",
    b"FOR UPDATE",
    b"COPY",
    b"SET incarnation",
    COMMIT,
)
OF_UPSERTS = (b"CREATE TEMPORARY", b"MERGE INTO", b"DELETE FROM", b"DO UPDATE SET")

WITH_ROWS = (*OF_UPSERTS[1:], b"SET incarnation")  # at which rows have been sent that are sent again


pytestmark = pytest.mark.slow  # a server of PostgreSQL


@pytest.fixture
def base(tmp_path: Path) -> Iterator[PostgresBase]:
    with opened("postgres", tmp_path) as base:
        assert isinstance(base, PostgresBase)
        yield base


@pytest.fixture
def proxy(base: PostgresBase) -> Iterator[Proxy]:
    server = urlsplit(base.url)
    with Proxy(str(server.hostname), server.port or 5432) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


def through(proxy: Proxy, url: str, *, wait: str = "20s") -> DatabaseSink:
    """The sink, by way of the proxy."""
    server = urlsplit(url)
    user = server.netloc.rpartition("@")[0]
    return DatabaseSink(server._replace(netloc=f"{user}@127.0.0.1:{proxy.port}").geturl(), "totals", wait=wait)


def prepared(sink: DatabaseSink, kind: str) -> PostgresPublisher:
    """A publisher that has published the first tick."""
    publisher = sink.prepare(KINDS[kind])
    assert isinstance(publisher, PostgresPublisher)
    publisher.publish(delivery(KINDS[kind], 1, *FIRST[kind]))
    return publisher


def second(kind: str) -> Delivery:
    return replace(delivery(KINDS[kind], 2, *SECOND[kind]), after=1)


def judged(base: PostgresBase | Cluster, kind: str) -> None:
    """The table is what it would be if nothing had happened, and says so."""
    assert sorted(base.ask("SELECT k, n FROM totals"), key=repr) == sorted(AFTERWARDS[kind], key=repr)
    assert base.ask("SELECT tick, digest FROM strandline_markers") == [(2, "digest-of-2")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("kind", "statement"), [("append", s) for s in STATEMENTS] + [("upsert", s) for s in (*STATEMENTS, *OF_UPSERTS)]
)
def test_a_connection_cut_at_any_statement_changes_nothing(
    base: PostgresBase, proxy: Proxy, kind: str, statement: bytes, after: bool
) -> None:
    with closing(prepared(through(proxy, base.url), kind)) as publisher:
        (proxy.cut_after if after else proxy.cut_before)(statement)
        tried: list[int] = []
        given = second(kind)
        receipt = publisher.publish(replace(given, tables=lambda: tried.append(1) or given.tables()))  # type: ignore[func-returns-value]
        assert len(tried) == (2 if statement in WITH_ROWS or (statement == COMMIT and not after) else 1)
        assert (receipt.rows, receipt.skipped) == (len(SECOND[kind]), False)
        assert (proxy.cuts, proxy.connections) == (1, 2)
        assert publisher.publish(second(kind)).skipped
    judged(base, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_did_not_notice_lets_go_of_what_it_holds(base: PostgresBase, proxy: Proxy, kind: str) -> None:
    with closing(prepared(through(proxy, base.url, wait="5s"), kind)) as publisher:
        proxy.cut_before(COMMIT, server_too=False)
        assert publisher.publish(second(kind)).rows == len(SECOND[kind])
        assert proxy.cuts == 1
    judged(base, kind)


@pytest.mark.parametrize("after", [False, True])
def test_connections_that_are_cut_again_and_again_are_made_anew_so_often_and_no_more(
    base: PostgresBase, proxy: Proxy, after: bool
) -> None:
    with closing(prepared(through(proxy, base.url), "append")) as publisher:
        for _ in range(5):
            proxy.cut_before(b"FOR UPDATE")
        with pytest.raises(SinkError, match="could not be written") as refused:
            publisher.publish(second("append"))
        assert "the marker tells" in refused.value.fix
        for _ in range(3):
            proxy.cut_before(COMMIT)
        (proxy.cut_after if after else proxy.cut_before)(COMMIT)
        assert publisher.publish(second("append")).rows == 2
        assert proxy.cuts == 9
    judged(base, "append")


def test_a_connection_cut_between_two_ticks_is_no_fault(base: PostgresBase, proxy: Proxy) -> None:
    with closing(prepared(through(proxy, base.url, wait="0s"), "append")) as publisher:
        proxy.cut()
        assert publisher.marker is not None
        assert publisher.marker.tick == 1
        proxy.cut()
        assert publisher.publish(second("append")).rows == 2
    judged(base, "append")


@pytest.mark.parametrize("again", ["same run", "new run"])
def test_a_server_that_stays_away_is_an_error_and_then_the_marker_decides(
    base: PostgresBase, proxy: Proxy, again: str
) -> None:
    sink = through(proxy, base.url, wait="200ms")
    publisher = prepared(sink, "append")
    proxy.cut_after(COMMIT, then=proxy.refuse)
    with pytest.raises(SinkError, match="could not be written"):
        publisher.publish(second("append"))
    proxy.refuse(False)
    if again == "new run":
        publisher.close()
    with closing(sink.prepare(TARGET) if again == "new run" else publisher) as going_on:
        assert going_on.publish(second("append")).skipped
    judged(base, "append")


def test_a_takeover_whose_answer_was_lost_happens_once(base: PostgresBase, proxy: Proxy) -> None:
    prepared(base.sink(), "upsert").close()
    anew = replace(CHANGES, incarnation="two", acknowledged=True)
    with closing(through(proxy, base.url).prepare(anew)) as publisher:
        proxy.cut_after(COMMIT)
        assert publisher.publish(delivery(anew, 1, ("a", 7, "upsert"))).rows == 1
    assert sorted(base.ask("SELECT k, n, _tick FROM totals")) == [("a", 7, 1), ("b", 1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("statement", [b"FOR UPDATE", b"COPY", COMMIT])
@pytest.mark.parametrize("victim", ["backend", "postmaster"])
def test_a_server_that_is_killed_comes_back_with_all_or_nothing(
    cluster: Cluster, kind: str, moment: str, statement: bytes, victim: str
) -> None:
    cluster.tell("DROP TABLE IF EXISTS totals, strandline_markers, strandline_keyed_tables")
    again = threading.Thread(target=cluster.server.restart)
    killed = threading.Event()

    def kill() -> None:
        if victim == "backend":  # the server restarts by itself
            cluster.kill_backend(serving)
        else:
            cluster.server.kill()
            again.start()
        killed.set()

    with Proxy("127.0.0.1", cluster.server.port) as proxy:
        publisher = prepared(through(proxy, cluster.url, wait="1m"), kind)
        serving = publisher.session.connection.info.backend_pid
        if moment == "during":
            proxy.during(statement, kill)
        else:
            (proxy.cut_after if moment == "after" else proxy.cut_before)(statement, then=kill)
        try:
            with closing(publisher):
                assert publisher.publish(second(kind)).rows == len(SECOND[kind])
                assert killed.wait(30)
                assert proxy.connections > 1 or moment == "during"  # it may be done before it notices
        finally:
            if again.ident is not None:
                again.join()
    judged(cluster, kind)


def stalled(target: Target, tick: int, rows: pl.DataFrame) -> tuple[Delivery, threading.Event, threading.Event]:
    """A delivery that stands still in the middle of its rows: it tells that it is there, and waits to be let go."""
    there, go_on = threading.Event(), threading.Event()

    def tables() -> Iterator[pl.DataFrame]:
        yield rows
        there.set()
        assert go_on.wait(30)

    return replace(delivery_of(target, tick, rows), tables=tables), there, go_on


@pytest.mark.parametrize("tick", [1, 2])
def test_of_two_who_publish_at_once_one_waits_and_passes_the_tick_over(base: PostgresBase, tick: int) -> None:
    first, late = base.sink(wait="30s").prepare(TARGET), base.sink(wait="30s").prepare(TARGET)
    if tick == 2:
        first.publish(delivery(TARGET, 1, ("a", 1)))
    rows = pl.DataFrame({"k": ["b"], "n": [tick]})
    given, there, go_on = stalled(TARGET, tick, rows)
    with ThreadPoolExecutor(2) as threads, closing(first), closing(late):
        one = threads.submit(first.publish, given)
        assert there.wait(30)
        other = threads.submit(late.publish, delivery_of(TARGET, tick, rows))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%strandline%'"
        while not base.ask(waiting)[0][0] and not other.done():
            pass
        assert not other.done()
        go_on.set()
        assert (one.result().rows, other.result().skipped) == (1, True)
    assert base.ask("SELECT n FROM totals WHERE k = 'b'") == [(tick,)]


@pytest.mark.parametrize("tick", [1, 2])
def test_who_may_not_wait_is_refused_and_nothing_is_doubled(base: PostgresBase, tick: int) -> None:
    first, late = base.sink().prepare(TARGET), base.sink().prepare(TARGET)
    if tick == 2:
        first.publish(delivery(TARGET, 1, ("a", 1)))
    rows = pl.DataFrame({"k": ["b"], "n": [tick]})
    given, there, go_on = stalled(TARGET, tick, rows)
    with ThreadPoolExecutor(1) as threads, closing(first), closing(late):
        one = threads.submit(first.publish, given)
        assert there.wait(30)
        with pytest.raises(SinkError, match="lock timeout") as refused:
            late.publish(delivery_of(TARGET, tick, rows))
        assert "wait=" in refused.value.fix
        go_on.set()
        assert one.result().rows == 1
        assert late.publish(delivery_of(TARGET, tick, rows)).skipped
    assert base.ask("SELECT n FROM totals WHERE k = 'b'") == [(tick,)]


@pytest.mark.parametrize("tick", [1, 2])
def test_a_run_that_stands_still_inside_a_tick_holds_up_no_other(base: PostgresBase, tick: int) -> None:
    first = base.sink(wait="30s").prepare(TARGET)
    if tick == 2:
        first.publish(delivery(TARGET, 1, ("a", 1)))
    rows = pl.DataFrame({"k": ["b"], "n": [tick]})
    given, there, go_on = stalled(TARGET, tick, rows)
    with ThreadPoolExecutor(1) as threads, closing(first):
        one = threads.submit(first.publish, given)
        assert there.wait(30)
        with closing(base.sink(wait="2s").prepare(TARGET)) as second:
            assert second.publish(delivery_of(TARGET, tick, rows)).rows == 1
            go_on.set()
            one.result()
    assert base.ask("SELECT n FROM totals WHERE k = 'b'") == [(tick,)]


def test_an_older_incarnation_that_still_lives_is_refused(base: PostgresBase) -> None:
    with closing(prepared(base.sink(), "append")) as zombie:
        anew = replace(TARGET, incarnation="two", acknowledged=True)
        with closing(base.sink().prepare(anew)) as publisher:
            publisher.publish(delivery(anew, 1, ("c", 1)))
        with pytest.raises(SinkError, match="another incarnation"):
            zombie.publish(second("append"))
    assert sorted(base.ask("SELECT k FROM totals")) == [("a",), ("b",), ("c",)]


def test_many_who_start_at_once_do_not_get_in_each_others_way(base: PostgresBase) -> None:
    sinks = [replace(TARGET, sink=f"s{number}") for number in range(8)]
    sink = base.sink(wait="30s")

    def start(target: Target) -> int:
        with closing(sink.prepare(target)) as publisher:
            return publisher.publish(delivery(target, 1, ("a", 1))).rows

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(start, sinks)) == [1] * 8
    assert base.ask("SELECT count(*) FROM totals") == [(8,)]

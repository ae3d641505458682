"""Rows as entries of Redis."""

from __future__ import annotations

import pickle
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import DescriptionError, RunError, SinkError
from strandline.kernel.changes import applied
from strandline.model.secrets import Secret
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.operations.ports import free_port
from strandline.sinks.contract import Target
from strandline.sinks.redis.description import RedisSink
from strandline.sinks.redis.entries import entry_name
from strandline.sinks.redis.publisher import Attempt
from tests import servers
from tests.lanes import examples
from tests.sinks.delivering import CHANGES, delivery, delivery_of
from tests.sinks.redis.serving import entries, new_prefix

Made = Callable[..., servers.Redis]
SAFE = {"appendonly": "yes", "appendfsync": "always"}  # what was acknowledged is on the disk


@pytest.fixture
def sink() -> RedisSink:
    return RedisSink(servers.redis(), new_prefix(), batch=2, wait="0s")


@pytest.fixture
def server() -> Iterator[Made]:
    """Starts servers of the test's own, with settings of redis.conf."""
    with ExitStack() as ending:
        yield lambda **settings: ending.enter_context(servers.own_redis(**settings))


def publish(sink: RedisSink, target: Target, *ticks: list[tuple[Any, ...]], first: int = 1) -> None:
    publisher = sink.prepare(target)
    for number, rows in enumerate(ticks, first):
        publisher.publish(delivery(target, number, *rows))
    publisher.close()


def left(sink: RedisSink) -> dict[str, dict[str, str]]:
    return entries(sink.url, sink.prefix)


def asked(sink: RedisSink) -> redis.Redis:
    return redis.Redis.from_url(sink.url, decode_responses=True)


def test_an_entry_is_a_hash_of_the_columns_that_are_not_null(sink: RedisSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", None, "upsert"), (None, 3, "upsert")])
    assert left(sink) == {"a": {"k": "a", "n": "1"}, "b": {"k": "b"}, "%null": {"n": "3"}}


def test_a_change_takes_the_place_of_all_that_was_there_and_a_delete_leaves_nothing(sink: RedisSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", 2, "upsert")], [("a", None, "upsert"), ("b", None, "delete")])
    assert left(sink) == {"a": {"k": "a"}}
    with asked(sink) as client:
        assert client.exists(f"{sink.prefix}b") == 0


def test_versions_grow_and_sort_as_text(sink: RedisSink) -> None:
    name, versions = entry_name(sink.prefix, "k string", "a"), []
    for number in (1, 9, 10, 100):
        publish(sink, CHANGES, [("a", number, "upsert")], first=number)
        with asked(sink) as client:
            versions.append(client.hget(name, "_version"))
    other = replace(CHANGES, incarnation="two", acknowledged=True)
    publish(sink, other, [("a", 0, "upsert")])
    with asked(sink) as client:
        versions.append(client.hget(name, "_version"))
    assert versions == sorted(set(versions))


KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "", "%null", "a,b"]))
TICKS = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=5), max_size=5)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(ticks=TICKS, batch=st.integers(1, 3))
def test_the_entries_are_what_the_changes_amount_to(ticks: list[dict[str | None, int | None]], batch: int) -> None:
    sink = RedisSink(servers.redis(), new_prefix(), batch=batch)
    table = pl.DataFrame(schema={"k": pl.String, "n": pl.Int64})
    changed = [[(k, n, "delete" if n is None else "upsert") for k, n in tick.items()] for tick in ticks]
    publish(sink, CHANGES, *changed)
    for rows in changed:
        table = applied(table, pl.DataFrame(rows, schema={**table.schema, "op": pl.String}, orient="row"), ["k"])
    found = [(fields.get("k"), int(fields["n"])) for fields in left(sink).values()]
    assert sorted(map(repr, found)) == sorted(map(repr, table.rows()))


def test_an_entry_lives_for_its_ttl_from_the_ticks_time_on(sink: RedisSink) -> None:
    now = Instant.of("2100-01-01T00:00:00Z")
    publisher = RedisSink(sink.url, sink.prefix, ttl="1h").prepare(CHANGES)
    publisher.publish(replace(delivery(CHANGES, 1, ("a", 1, "upsert")), now=now))
    publisher.publish(delivery(CHANGES, 2, ("old", 1, "upsert")))  # of a tick more than an hour ago
    publisher.close()
    with asked(sink) as client:
        assert client.pexpiretime(f"{sink.prefix}a") == (now + 3_600_000_000) // 1_000
        assert client.ttl(f"strandline:marker:{sink.prefix}") == -1
    assert list(left(sink)) == ["a"]


def test_without_ttl_an_entry_that_had_one_stays(sink: RedisSink) -> None:
    now = Instant.of("2100-01-01T00:00:00Z")
    first = RedisSink(sink.url, sink.prefix, ttl="1h").prepare(CHANGES)
    first.publish(replace(delivery(CHANGES, 1, ("a", 1, "upsert")), now=now))
    first.close()
    publish(sink, CHANGES, [("a", 2, "upsert")], first=2)
    with asked(sink) as client:
        assert client.ttl(f"{sink.prefix}a") == -1


def test_binary_is_kept_as_it_is_and_names_may_hold_anything(sink: RedisSink) -> None:
    target = replace(CHANGES, schema=Schema.of("k string, b binary"))
    publish(sink, target, [("ü:\n,\0", b"\xff\0=", "upsert"), ("empty", b"", "upsert")])
    with redis.Redis.from_url(sink.url) as client:
        assert client.hget(entry_name(sink.prefix, "k string", "ü:\n,\0"), "b") == b"\xff\0="
        assert client.hget(f"{sink.prefix}empty", "b") == b""


def test_a_tick_of_many_batches_is_written_whole(sink: RedisSink) -> None:
    rows = [(f"k{at}", at, "upsert") for at in range(1_001)]
    publisher = sink.prepare(CHANGES)
    parts = delivery(CHANGES, 1, *rows).tables().__next__().iter_slices(97)
    assert publisher.publish(delivery_of(CHANGES, 1, *parts)).rows == 1_001
    assert publisher.publish(delivery(CHANGES, 2)).rows == 0
    assert publisher.marker is not None
    assert publisher.marker.tick == 2
    publisher.close()
    assert len(left(sink)) == 1_001


# Others that write.


def test_a_batch_that_comes_after_its_tick_was_finished_changes_nothing(sink: RedisSink) -> None:
    """A driver that was paused inside a tick, while another one went on: its command comes when everything is over."""
    zombie = sink.prepare(CHANGES)
    late = Attempt(zombie, delivery(CHANGES, 1, ("a", 1, "upsert"), ("gone", 1, "upsert")))
    epoch = late._begun(None)
    assert epoch is not None
    publish(
        sink, CHANGES,
        [("a", 1, "upsert"), ("gone", 1, "upsert")], [("a", 2, "upsert"), ("gone", None, "delete")],
    )  # fmt: skip
    assert not late._written(epoch)
    assert left(sink) == {"a": {"k": "a", "n": "2"}}
    with pytest.raises(SinkError, match="is at tick 2; tick 1 comes too late"):
        late()
    zombie.close()


def test_a_batch_that_comes_while_the_next_tick_is_under_way_changes_nothing(sink: RedisSink) -> None:
    zombie, other = sink.prepare(CHANGES), sink.prepare(CHANGES)
    late = Attempt(zombie, delivery(CHANGES, 1, ("a", 1, "upsert")))
    epoch = late._begun(None)
    assert epoch is not None
    other.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    following = Attempt(other, delivery(CHANGES, 2, ("a", None, "delete"), ("b", 1, "upsert"), ("c", 1, "upsert")))
    begun = following._begun(other.marker)
    assert begun == epoch
    batch = next(following._batches())
    assert following._sent([batch], begun)
    assert list(left(sink)) == ["b"]
    assert not late._written(epoch)
    assert list(left(sink)) == ["b"]
    zombie.close()
    other.close()


def test_another_incarnation_that_has_begun_keeps_the_old_one_out(sink: RedisSink) -> None:
    old = sink.prepare(CHANGES)
    old.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    new = sink.prepare(replace(CHANGES, incarnation="two", acknowledged=True))
    begun = Attempt(new, delivery(new.target, 1, ("a", 5, "upsert")))
    assert begun._begun(new.marker) is not None
    with pytest.raises(SinkError, match="another incarnation"):
        old.publish(delivery(CHANGES, 2, ("a", 2, "upsert")))
    old.close()
    assert begun().rows == 1
    new.close()
    assert left(sink) == {"a": {"k": "a", "n": "5"}}


def test_other_rows_for_a_tick_that_is_half_written_are_refused(sink: RedisSink) -> None:
    first = sink.prepare(CHANGES)
    half = Attempt(first, delivery(CHANGES, 1, ("a", 1, "upsert")))
    half._begun(None)
    with pytest.raises(SinkError, match="other rows for tick 1"):
        first.publish(delivery(CHANGES, 1, ("a", 2, "upsert"), digest="other"))
    first.close()


def test_the_entries_of_another_flow_are_refused_unless_it_is_acknowledged(sink: RedisSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    with pytest.raises(SinkError, match="those of the sink 's' of the flow 'f'"):
        sink.prepare(replace(CHANGES, flow="other"))
    publish(sink, replace(CHANGES, flow="other", acknowledged=True), [("a", 2, "upsert")], first=2)
    assert left(sink) == {"a": {"k": "a", "n": "2"}}


def test_two_publishers_at_once_leave_what_one_does(sink: RedisSink) -> None:
    ticks = [delivery(CHANGES, number, *((f"k{at}", number, "upsert") for at in range(40))) for number in range(1, 9)]
    failures: list[SinkError] = []

    def run() -> None:
        publisher = sink.prepare(CHANGES)
        try:
            for tick in ticks:
                publisher.publish(tick)
        except SinkError as error:
            failures.append(error)
        publisher.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) < 2
    assert all("comes too late" in error.what for error in failures)
    assert left(sink) == {f"k{at}": {"k": f"k{at}", "n": "8"} for at in range(40)}


# Servers that fail.


def test_a_server_that_lost_everything_is_refused_until_it_is_acknowledged(server: Made) -> None:
    own = server()
    sink = RedisSink(own.address, "x:", wait="2s")
    publisher = sink.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    own.kill()
    own.restart()
    following = replace(delivery(CHANGES, 2, ("b", 2, "upsert")), after=1)
    with pytest.raises(SinkError, match="shows no delivery, but tick 1 was published"):
        publisher.publish(following)
    publisher.close()
    acknowledged = sink.prepare(replace(CHANGES, acknowledged=True))
    assert acknowledged.publish(following).rows == 1
    acknowledged.close()
    assert left(sink) == {"b": {"k": "b", "n": "2"}}


def test_a_server_that_is_emptied_inside_a_tick_is_noticed(sink: RedisSink) -> None:
    publisher = sink.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    attempt = Attempt(publisher, replace(delivery(CHANGES, 2, ("b", 2, "upsert")), after=1))
    epoch = attempt._begun(publisher.marker)
    assert epoch is not None
    with asked(sink) as client:
        client.delete(f"strandline:marker:{sink.prefix}")
    assert not attempt._written(epoch)
    with pytest.raises(SinkError, match="shows no delivery"):
        attempt()
    publisher.close()


def test_a_server_that_keeps_what_it_acknowledged_is_waited_for(server: Made) -> None:
    own = server(**SAFE)
    publisher = RedisSink(own.address, "x:", batch=1, wait="20s").prepare(CHANGES)
    assert publisher.notes == []
    for number in range(1, 5):
        own.kill()
        back = threading.Timer(0.2, own.restart)
        back.start()
        tick = delivery(CHANGES, number, *((f"k{at}", number, "upsert") for at in range(5)))
        assert publisher.publish(replace(tick, after=number - 1 or None)).rows == 5
        back.join()
    publisher.close()
    assert entries(own.address, "x:") == {f"k{at}": {"k": f"k{at}", "n": "4"} for at in range(5)}


def test_an_answer_that_was_lost_is_found_by_the_marker(sink: RedisSink, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = RedisSink(sink.url, sink.prefix, batch=2, wait="5s").prepare(CHANGES)
    read, cut = redis.connection.Connection.read_response, [3, 4, 5]

    def cutting(connection: Any, *given: Any, **named: Any) -> Any:
        cut[:] = [each - 1 for each in cut]
        if 0 in cut:
            connection.disconnect()
            raise redis.ConnectionError("cut")
        return read(connection, *given, **named)

    monkeypatch.setattr(redis.connection.Connection, "read_response", cutting)
    assert publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"), ("b", 1, "upsert"), ("c", 1, "upsert"))).rows == 3
    assert publisher.publish(delivery(CHANGES, 1)).skipped
    publisher.close()
    assert all(each < 0 for each in cut)
    assert len(left(sink)) == 3


def test_nobody_there_is_said_with_the_time_that_was_waited() -> None:
    with pytest.raises(SinkError, match=r"could not be asked.*127.0.0.1:9") as failed:
        RedisSink("redis://127.0.0.1:9", "x:", wait="10ms").prepare(CHANGES)
    assert "tried for 10ms" in failed.value.fix


def test_an_entry_of_another_kind_is_said(sink: RedisSink) -> None:
    with asked(sink) as client:
        client.set(f"{sink.prefix}a", "text")
    publisher = sink.prepare(CHANGES)
    with pytest.raises(SinkError, match="WRONGTYPE"):
        publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    publisher.close()


def test_a_full_memory_is_said_and_no_entry_is_lost(server: Made) -> None:
    own = server(**{"maxmemory-policy": "noeviction"})
    sink = RedisSink(own.address, "x:", wait="0s")
    publisher = sink.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    with asked(sink) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(SinkError, match="maxmemory"):
            publisher.publish(delivery(CHANGES, 2, ("a", 2, "upsert")))
        assert left(sink) == {"a": {"k": "a", "n": "1"}}
        client.config_set("maxmemory", 0)
    assert publisher.publish(delivery(CHANGES, 2, ("a", 2, "upsert"))).rows == 1
    publisher.close()


def test_a_memory_that_fills_inside_a_tick_takes_no_entry_away(server: Made) -> None:
    own = server(**{"maxmemory-policy": "noeviction"})
    sink = RedisSink(own.address, "x:", wait="0s")
    publisher = sink.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    attempt = Attempt(publisher, delivery(CHANGES, 2, ("a", 2, "upsert")))
    epoch = attempt._begun(publisher.marker)
    assert epoch is not None
    with asked(sink) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            attempt._written(epoch)
    assert left(sink) == {"a": {"k": "a", "n": "1"}}
    publisher.close()


def test_an_entry_of_a_newer_version_stays_though_the_marker_was_lost(sink: RedisSink) -> None:
    with asked(sink) as client:
        for key in ("kept", "kept too"):
            client.hset(f"{sink.prefix}{key}", mapping={"k": key, "n": "9", "_version": "999999999999-000000000001"})
    publish(sink, CHANGES, [("kept", 1, "upsert"), ("kept too", None, "delete"), ("a", 1, "upsert")])
    assert {key: fields["n"] for key, fields in left(sink).items()} == {"kept": "9", "kept too": "9", "a": "1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no snapshots: if it ends, all entries are lost"),
        ({"save": "3600 1"}, "since its last snapshot"),
        ({"appendonly": "yes"}, "appendfsync=everysec"),
        ({**SAFE, "maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}, "drops entries, and the marker"),
        ({**SAFE, "maxmemory": "1gb", "maxmemory-policy": "volatile-ttl"}, "before their ttl= is over"),
        ({"rename-command": ("CONFIG", "")}, "does not tell its settings"),
    ],
)
def test_settings_that_weaken_the_promise_are_told(server: Made, given: dict[str, object], said: str) -> None:
    publisher = RedisSink(server(**given).address, "x:", ttl="1h").prepare(CHANGES)
    publisher.close()
    assert [note for note in publisher.notes if said in note]
    assert len(publisher.notes) == 1


def test_a_cluster_is_refused_by_name(server: Made) -> None:
    own = server(**{"cluster-enabled": "yes"})
    with pytest.raises(SinkError, match="Redis Cluster, which is not supported"):
        RedisSink(own.address, "x:", wait="0s").prepare(CHANGES)


def test_a_replica_is_refused(server: Made) -> None:
    own = server(replicaof=("127.0.0.1", 9))
    with pytest.raises(SinkError, match="replica, which only reads"):
        RedisSink(own.address, "x:", wait="0s").prepare(CHANGES)


def test_a_user_who_may_not_ask_for_settings_may_write(server: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    own = server()
    with redis.Redis.from_url(own.address) as client:
        client.acl_setuser("ann", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all", "-@dangerous"])
    monkeypatch.setenv("ANN", "secret")
    sink = RedisSink(own.address, "x:", options={"username": "ann", "password": Secret.env("ANN")})
    publisher = sink.prepare(CHANGES)
    assert "does not tell its settings" in publisher.notes[0]
    assert publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"))).rows == 1
    publisher.close()


def test_rows_of_many_bytes_make_small_batches(sink: RedisSink) -> None:
    publisher = RedisSink(sink.url, sink.prefix).prepare(CHANGES)
    big = delivery(CHANGES, 1, *((f"{at}{'x' * 300_000}", at, "upsert") for at in range(10)))
    assert {len(names) for names, _ in Attempt(publisher, big)._batches()} <= {1, 2, 3}
    assert publisher.publish(big).rows == 10
    publisher.close()
    assert len(left(sink)) == 10


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_is_written_to_ends_with_every_tick(server: Made) -> None:
    own = server(**SAFE)
    publisher = RedisSink(own.address, "x:", batch=3, wait="30s").prepare(CHANGES)
    table = pl.DataFrame(schema={"k": pl.String, "n": pl.Int64})
    drawn, interrupted = random.Random(7), 0
    for number in range(1, 16):
        rows = [
            (f"k{at}", *((None, "delete") if drawn.random() < 0.2 else (number, "upsert"))) for at in range(number, 300)
        ]
        fault = threading.Timer(drawn.uniform(0.0, 0.1), lambda: (own.kill(), own.restart()))
        fault.start()
        tick = delivery(CHANGES, number, *rows)
        assert publisher.publish(replace(tick, after=number - 1 or None)).rows == len(rows)
        interrupted += fault.finished.is_set()
        fault.join()
        table = applied(table, next(tick.tables()), ["k"])
    publisher.close()
    assert interrupted >= 5
    assert entries(own.address, "x:") == {k: {"k": k, "n": str(n)} for k, n in table.rows()}


def test_a_password_is_read_where_it_is_used_and_told_to_nobody(
    server: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = server(requirepass="hunter2-canary")
    made = RedisSink(own.address, "x:", options={"password": Secret.env("REDIS_PASSWORD")}, wait="0s")
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(RunError, match="REDIS_PASSWORD"):
        made.prepare(CHANGES)
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2-canary")
    publisher = made.prepare(CHANGES)
    assert publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"))).rows == 1
    publisher.close()
    monkeypatch.setenv("REDIS_PASSWORD", "wrong-canary")
    with pytest.raises(SinkError, match="who logs in") as refused:
        made.prepare(CHANGES)
    assert refused.value.__cause__ is None
    said = [repr(made), str(refused.value), caplog.text, pickle.dumps(made).decode("latin-1")]
    assert not [each for each in said if "canary" in each]


def test_tls_is_spoken_and_the_server_is_checked(server: Made, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, to make a certificate")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = free_port()
    own = {"tls-port": tls, "tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": certificate}
    server(**own, **{"tls-auth-clients": "no"})
    url = f"rediss://127.0.0.1:{tls}"
    publisher = RedisSink(url, "x:", options={"ssl_ca_certs": certificate}, wait="0s").prepare(CHANGES)
    assert publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"))).rows == 1
    publisher.close()
    with pytest.raises(SinkError, match="certificate verify failed"):
        RedisSink(url, "x:", wait="0s").prepare(CHANGES)


# Descriptions.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "redis://:hunter2@host"}, "not repeated here"),
        ({"url": "redis://hunter2@host"}, "not repeated here"),
        ({"url": "redis://host?password=hunter2"}, "not repeated here"),
        ({"url": "redis://host:po"}, "not repeated here"),
        ({"url": "http://host"}, "no url of Redis"),
        ({"url": "redis://host/one"}, "names no database"),
        ({"url": 7}, "no url of Redis"),
        ({"prefix": "x"}, "does not end with a colon"),
        ({"prefix": ":"}, "no prefix"),
        ({"prefix": "strandline:x:"}, "kept for markers"),
        ({"options": {"password": "hunter2"}}, "stands openly"),
        ({"options": {"pasword": Secret.env("X")}}, "not known"),
        ({"options": {"ssl_ca_certs": "/ca.pem"}}, "is for TLS"),
        ({"batch": 0}, "no number of rows"),
        ({"ttl": "0s"}, "too short"),
        ({"wait": "-1s"}, "cannot be read"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DescriptionError, match=said) as refused:
        RedisSink(**({"url": "redis://host", "prefix": "x:"} | given))
    assert "hunter2" not in str(refused.value)


def test_two_sinks_with_one_prefix_are_one_target() -> None:
    one, two = RedisSink("redis://host", "x:"), RedisSink("redis://host:6379/0", "x:", ttl="1h")
    assert (
        one.own_target("upsert") == two.own_target("upsert") != RedisSink("redis://host/1", "x:").own_target("upsert")
    )

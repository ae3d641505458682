"""Rows as calls: keys, order, retries, and what is refused."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DescriptionError, RunError, SinkError
from strandline.model.secrets import Secret
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.sinks.contract import Marker, Target
from strandline.sinks.http.breaker import WATCHED_EVERY, Breaker
from strandline.sinks.http.description import HttpSink
from strandline.sinks.http.keys import backoff, idempotency_key
from strandline.sinks.http.publisher import HttpPublisher
from tests.sinks.delivering import CHANGES, LOG, TARGET, delivery
from tests.sinks.http_calls.paying import Payments, serving
from tests.sinks.http_calls.publishing import NOON, sink

DAY = Span.of("24h")


@pytest.fixture
def payments() -> Payments:
    return Payments()


@pytest.fixture
def url(payments: Payments) -> Iterator[str]:
    with serving(payments) as url:
        yield url


MADE: list[HttpPublisher] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def opened(described: HttpSink, target: Target = TARGET, now: Callable[[], Instant] = lambda: NOON) -> HttpPublisher:
    """A publisher that is closed at the end of the test."""
    MADE.append(HttpPublisher(described, target, now=now))
    return MADE[-1]


def publisher(url: str, target: Target = TARGET, *, now: Instant = NOON, **options: Any) -> HttpPublisher:
    return opened(sink(url, **options), target, now=lambda: now)


def test_each_row_is_a_json_object_with_a_key_of_its_own(url: str, payments: Payments) -> None:
    target = replace(TARGET, schema=Schema.of("k string, x decimal(5,2), at timestamp, n bigint"))
    with_all = publisher(url, target)
    with_all.publish(delivery(target, 1, ("ä", Decimal("1.50"), NOON.moment, None)))
    assert payments.ledger == [{"k": "ä", "x": "1.50", "at": "2026-01-01T12:00:00.000000Z", "n": None}]
    assert payments.seen[0][0] == idempotency_key(target, 1, 0)
    assert payments.seen[0][1]["Content-Type"] == "application/json"


def test_changes_are_sent_with_their_op(url: str, payments: Payments) -> None:
    upserting = publisher(url, CHANGES)
    upserting.publish(delivery(CHANGES, 1, ("a", 1, "upsert"), ("b", None, "delete")))
    assert payments.charged() == [("a", 1, "upsert"), ("b", None, "delete")]


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.integers(0), st.integers(0)), unique=True, max_size=20))
def test_rows_have_the_same_key_only_if_they_are_the_same_row(rows: list[tuple[str, str, str, int, int]]) -> None:
    keys = [
        idempotency_key(replace(TARGET, flow=flow, sink=name, incarnation=life), tick, place)
        for flow, name, life, tick, place in rows
    ]
    assert len(set(keys)) == len(rows)
    assert [str(uuid.UUID(key)) for key in keys] == keys


def test_a_restart_sends_the_same_keys(url: str, payments: Payments) -> None:
    rows = [("a", 1), ("a", 1), ("b", 2)]  # equal rows are two rows
    for _ in range(2):
        again = publisher(url)
        assert again.publish(delivery(TARGET, 7, *rows)).rows == 3
        again.close()
    assert sorted(key for key, _ in payments.seen) == sorted([idempotency_key(TARGET, 7, at) for at in range(3)] * 2)
    assert payments.charged() == rows


def test_rows_of_one_key_are_never_under_way_together_and_keep_their_order(url: str, payments: Payments) -> None:
    keyed = replace(LOG, key=("k",))
    rows = [(f"k{at % 5}", at, "insert") for at in range(100)]
    ordered = publisher(url, keyed, concurrency=6)
    ordered.publish(delivery(keyed, 1, *rows))
    assert payments.clashes == 0
    for name in {key for key, _, _ in rows}:
        assert [row["n"] for row in payments.ledger if row["k"] == name] == [n for key, n, _ in rows if key == name]


def test_a_changelog_without_a_key_keeps_its_order(url: str, payments: Payments) -> None:
    ordered = publisher(url, LOG, concurrency=6)
    ordered.publish(delivery(LOG, 1, *((None, at, "insert") for at in range(50))))
    assert [row["n"] for row in payments.ledger] == list(range(50))
    assert payments.most_together == 1


def test_so_many_calls_are_under_way_and_no_more(url: str, payments: Payments) -> None:
    all_here = threading.Barrier(4, timeout=20)
    payments.at = lambda point, number: (all_here.wait(), None)[1] if point == "received" and number <= 4 else None
    wide = publisher(url, concurrency=4)
    assert wide.publish(delivery(TARGET, 1, *((str(at), at) for at in range(60)))).rows == 60
    assert payments.most_together == 4
    assert len(payments.ledger) == 60


def test_a_status_that_may_pass_is_tried_again(url: str, payments: Payments) -> None:
    payments.statuses = {1: 503, 2: 429, 3: 500}
    patient = publisher(url, concurrency=1)
    patient.publish(delivery(TARGET, 1, ("a", 1)))
    assert payments.ledger == [{"k": "a", "n": 1}]
    assert payments.requests == 4
    assert len({key for key, _ in payments.seen}) == 1


def test_a_server_that_never_answers_well_stops_the_flow(url: str, payments: Payments) -> None:
    payments.refused = {"a": 503}
    short = publisher(url, retries=2)
    with pytest.raises(SinkError, match=r"row 1 of tick 4.*no good answer in 3 attempts; the last: 503") as failed:
        short.publish(delivery(TARGET, 4, ("b", 2), ("a", 1)))
    assert "same keys" in failed.value.fix
    payments.refused = {}
    assert short.publish(delivery(TARGET, 4, ("b", 2), ("a", 1))).rows == 2
    assert payments.charged() == [("a", 1), ("b", 2)]


def test_a_row_that_the_server_refuses_is_named_by_its_key_and_tried_once(url: str, payments: Payments) -> None:
    payments.refused = {"a": 422}
    keyed = replace(TARGET, key=("k",))
    refused = publisher(url, keyed)
    with pytest.raises(SinkError, match=r'row 0 of tick 1 with the key \{"k":"a"\}.*was refused: 422'):
        refused.publish(delivery(keyed, 1, ("a", 1)))
    assert payments.requests == 1


def test_a_status_that_is_accepted_is_as_good_as_done(url: str, payments: Payments) -> None:
    payments.refused = {"a": 422}
    accepting = publisher(url, accept=[422])
    assert accepting.publish(delivery(TARGET, 1, ("a", 1))).rows == 1


def test_a_redirect_is_not_followed(url: str, payments: Payments) -> None:
    payments.refused = {"a": 307}
    with pytest.raises(SinkError, match="was refused: 307"):
        publisher(url).publish(delivery(TARGET, 1, ("a", 1)))


def test_nobody_there_is_said_with_the_row() -> None:
    alone = publisher("http://127.0.0.1:9/", retries=1)
    with pytest.raises(SinkError, match=r"row 0 of tick 1.*2 attempts; the last: ConnectError"):
        alone.publish(delivery(TARGET, 1, ("a", 1)))


def test_the_server_says_when_to_come_again_but_not_for_longer_than_allowed(url: str, payments: Payments) -> None:
    payments.statuses, payments.retry_after = {1: 429}, "3600"
    polite = publisher(url)
    polite.publish(delivery(TARGET, 1, ("a", 1)))  # would wait an hour
    sender = polite.sender
    in_two_seconds = type("Response", (), {"headers": {"Retry-After": "Thu, 01 Jan 2026 12:00:02 GMT"}})()
    assert sender._retry_after(in_two_seconds) == 2.0
    nonsense = type("Response", (), {"headers": {"Retry-After": "soon"}})()
    assert sender._retry_after(nonsense) is None


# How long the server remembers.


def test_a_tick_that_may_have_been_sent_longer_ago_than_the_server_remembers_is_refused(
    url: str, payments: Payments
) -> None:
    late = publisher(url, now=Instant(NOON + DAY))
    with pytest.raises(SinkError, match=r"Tick 3 .*may have been sent at 2026-01-01T12:00:00Z") as refused:
        late.publish(delivery(TARGET, 3, ("a", 1)))
    assert payments.requests == 0
    assert "acknowledged=True" in refused.value.fix


def test_a_tick_within_the_servers_memory_is_sent_again(url: str, payments: Payments) -> None:
    in_time = publisher(url, now=Instant(NOON + DAY - Span.of("5s")))
    assert in_time.publish(delivery(TARGET, 3, ("a", 1))).rows == 1


def test_old_ticks_that_are_acknowledged_are_sent_again_all_of_them(url: str, payments: Payments) -> None:
    late = publisher(url, replace(TARGET, acknowledged=True), now=Instant(NOON + 3 * DAY))
    late.publish(delivery(TARGET, 3, ("a", 1)))
    late.publish(delivery(TARGET, 4, ("a", 2)))
    assert len(payments.ledger) == 2


def test_a_tick_of_this_run_may_wait_as_long_as_it_must_for_its_first_call(url: str, payments: Payments) -> None:
    time = [Instant(NOON - Span.of("1s"))]
    slow = opened(sink(url), now=lambda: time[0])
    time[0] = Instant(NOON + 9 * DAY)
    assert slow.publish(delivery(TARGET, 3, ("a", 1))).rows == 1


def test_a_call_is_not_made_again_once_the_server_may_have_forgotten_it(url: str, payments: Payments) -> None:
    time = [Instant(NOON - Span.of("1s"))]
    slow = opened(sink(url), now=lambda: time[0])
    payments.refused = {"a": 503}

    def pass_time(point: str, number: int) -> None:
        time[0] = Instant(time[0] + Span.of("10h"))

    payments.at = lambda point, number: pass_time(point, number) if point == "received" else None
    with pytest.raises(SinkError, match="more than key_ttl='1d' ago"):
        slow.publish(delivery(TARGET, 3, ("a", 1)))
    assert payments.requests == 3
    with pytest.raises(SinkError, match="more than key_ttl='1d' ago"):
        slow.publish(delivery(TARGET, 3, ("a", 1)))  # nor when the same tick is tried again
    assert payments.requests == 3


def test_after_a_run_that_ended_well_nothing_is_sent_again_however_late(url: str, payments: Payments) -> None:
    tick = delivery(TARGET, 3, ("a", 1))
    later = publisher(url, replace(TARGET, last=Marker.of(tick)), now=Instant(NOON + 30 * DAY))
    assert later.publish(tick).skipped
    assert payments.requests == 0


def test_going_back_to_a_savepoint_calls_nobody_until_it_is_acknowledged(url: str, payments: Payments) -> None:
    back = replace(TARGET, incarnation="two", restored_from="one")
    with pytest.raises(SinkError, match="went back to a savepoint"):
        publisher(url, back)
    again = publisher(url, replace(back, acknowledged=True))
    again.publish(delivery(back, 3, ("a", 1)))
    restarted = publisher(url, replace(back, restored_from=None))  # of which only the first manifest of it tells
    restarted.publish(replace(delivery(back, 4, ("a", 2)), after=3))
    assert payments.charged() == [("a", 1), ("a", 2)]


def test_going_back_to_a_savepoint_calls_again_where_the_sink_says_so(url: str, payments: Payments) -> None:
    back = replace(TARGET, incarnation="two", restored_from="one")
    opened(sink(url, replay=True), back).publish(delivery(back, 3, ("a", 1)))
    assert payments.charged() == [("a", 1)]


# Waiting.


@given(st.text(), st.integers(0, 100))
def test_waiting_is_spread_by_the_key_and_never_longer_than_allowed(key: str, attempt: int) -> None:
    whole = min(0.2 * 2.0**attempt, 30.0)
    assert whole / 2 <= backoff(key, attempt, 0.2, 30.0) <= whole
    assert backoff(key, attempt, 0.2, 30.0) == backoff(key, attempt, 0.2, 30.0)


def test_a_breaker_opens_after_failures_in_a_row_and_lets_one_try() -> None:
    breaker = Breaker(after=3, pause=10.0)
    for failing in (True, True, False, True, True):
        assert breaker.ask(0.0) == 0.0
        breaker.failed(0.0) if failing else breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.ask(1.0) == 10.0
    assert breaker.ask(11.0) == 0.0
    assert breaker.ask(11.0) == WATCHED_EVERY
    breaker.failed(12.0)
    assert breaker.ask(21.0) == 1.0
    assert breaker.ask(22.0) == 0.0
    breaker.succeeded()
    assert [breaker.ask(22.0) for _ in range(3)] == [0.0] * 3


def test_a_server_that_is_down_is_left_alone_but_for_one_who_tries(url: str, payments: Payments) -> None:
    payments.statuses = dict.fromkeys(range(1, 12), 503)
    many = publisher(url, concurrency=6, break_after=6, retries=50, pause="50ms")
    alone: list[int] = []
    payments.at = lambda point, number: alone.append(payments.together) if point == "received" and number > 6 else None
    assert many.publish(delivery(TARGET, 1, *((str(at), at) for at in range(30)))).rows == 30
    assert alone[:6] == [1] * 6  # the calls 7 to 12 were those who tried
    assert len(payments.ledger) == 30


# Descriptions.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://host/"}, "no url to call"),
        ({"url": "https://ann:hunter2@host/"}, "not repeated"),
        ({"url": "https://host/?access_token=hunter2"}, "openly"),
        ({"url": "https://host:port/"}, "not repeated"),
        ({"headers": {"Authorization": "hunter2"}}, "stands openly"),
        ({"headers": {"X-Api-Key": "hunter2"}}, "stands openly"),
        ({"headers": {"Idempotency-Key": "1"}}, "Strandline's own"),
        ({"headers": {"a b": "1"}}, "no name of a header"),
        ({"headers": {"A": "1\r\nB: 2"}}, "cannot be sent"),
        ({"method": "GET"}, "sends no rows"),
        ({"key_ttl": "5s"}, "is over before"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"retries": True}, "retries=True"),
        ({"retry_on": [200]}, "200"),
        ({"accept": "404"}, "names no statuses"),
        ({"backoff": "0s"}, "no time"),
        ({"key_header": "Host"}, "no name of a header for keys"),
        ({"replay": "no"}, "neither True nor False"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DescriptionError, match=said) as refused:
        HttpSink(**({"url": "https://host/"} | given))
    assert "hunter2" not in str(refused.value)


def test_a_url_that_the_client_cannot_call_is_said_at_the_start() -> None:
    with pytest.raises(RunError, match="cannot be called"):
        HttpSink("https://host/a\x07b").prepare(TARGET)


def test_secrets_are_sent_and_told_to_nobody_else(
    url: str, payments: Payments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "Bearer hunter2")
    made = sink(url, headers={"Authorization": Secret.env("TOKEN"), "X-Shop": "one"})
    assert "hunter2" not in repr(made)
    assert b"hunter2" not in pickle.dumps(made)
    assert pickle.loads(pickle.dumps(made)) == made
    calling = opened(made)
    calling.publish(delivery(TARGET, 1, ("a", 1)))
    assert payments.seen[0][1]["Authorization"] == "Bearer hunter2"
    assert payments.seen[0][1]["X-Shop"] == "one"
    monkeypatch.setenv("TOKEN", "hunter2\nmore")
    with pytest.raises(RunError, match="cannot be sent") as refused:
        opened(made)
    assert "hunter2" not in str(refused.value)


def test_what_the_server_says_is_told_without_secrets(
    payments: Payments, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", '{"status": 400}')  # which is what the server answers
    payments.refused = {"a": 400}
    made = sink(url, headers={"Authorization": Secret.env("TOKEN")})
    with pytest.raises(SinkError, match=r"400 Bad Request, '\*\*\*'"):
        opened(made).publish(delivery(TARGET, 1, ("a", 1)))


def test_the_receiver_is_told_what_it_must_do() -> None:
    assert "remember it for 1d" in publisher("http://host/").notes[0]

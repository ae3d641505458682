"""Deliveries as calls: which rows are sent side by side, and which must wait for one another."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import polars as pl

from strandline.clients.secrets import reveal, revealed
from strandline.errors import RunError, SinkError
from strandline.model.secrets import Secret
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.contract import (
    ACKNOWLEDGE,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Target,
    delivered_tables,
    judge_marker,
)  # fmt: skip
from strandline.sinks.formats import FORMATS
from strandline.sinks.http.keys import idempotency_key
from strandline.sinks.http.sending import Call, Sender, Stopped
from strandline.sinks.zeros import with_one_zero

if TYPE_CHECKING:
    import httpx

    from strandline.sinks.http.description import HttpSink

_WAITING: Final = 16
"""How many rows wait in each lane, so that memory does not grow with a tick."""


class HttpPublisher:
    """A server, open for deliveries. What was delivered is known within this run, and after one that ended well."""

    def __init__(self, sink: HttpSink, target: Target, *, now: Callable[[], Instant] | None = None) -> None:
        _require_not_gone_back(sink, target)
        self.sink, self.target, self.now = sink, target, now or _now
        self.lock = threading.Lock()
        self.marker = target.last
        self.prepared = self.now()
        self.acknowledged = target.acknowledged  # of all ticks that were there at the start, not of the first alone
        self.attempted: tuple[int, Instant] | None = None
        secrets = [reveal(value) for _, value in sink.headers if isinstance(value, Secret)]
        secrets += [
            part for secret in secrets for part in secret.split()[1:]
        ]  # a server may name a token without its kind
        self.sender = Sender(sink, _client(sink), secrets, now=self.now)

    @property
    def notes(self) -> Sequence[str]:
        """What the receiver must do."""
        told = (
            f"the server must act once for each {self.sink.key_header}, remember it for {self.sink.key_ttl.text} in the same "
            "transaction as what it did, and answer as it did before when the key comes again."
        )
        return [told]

    def publish(self, delivery: Delivery) -> Receipt:
        """Send the rows of a tick."""
        with self.lock:
            if judge_marker(self.marker, delivery, self.target, kept=False) == "skip":
                return SKIPPED
            first_sent = self._first_sent(delivery)
            rows = self._sent(delivery, lambda: self._require_remembered(delivery, first_sent))
            self.marker = Marker.of(delivery)
            self.target = self.target.once_published
        return Receipt(rows=rows)

    def close(self) -> None:
        """Close the connections."""
        self.sender.client.close()

    def _first_sent(self, delivery: Delivery) -> Instant:
        """When the tick may have been sent first: not before its own time, and not before now if this run made it."""
        if self.attempted is not None and self.attempted[0] == delivery.tick:
            return self.attempted[1]
        began = self.now()
        first = delivery.now if delivery.now < self.prepared else began
        self.attempted = (delivery.tick, first)
        return first

    def _require_remembered(self, delivery: Delivery, first_sent: Instant) -> None:
        """SinkError if the server may have forgotten the keys of a tick that it may have had."""
        if self.now() + self.sink.timeout <= first_sent + self.sink.key_ttl:
            return
        if self.acknowledged and first_sent < self.prepared:
            return
        raise SinkError(
            f"Tick {delivery.tick} of {self.target} may have been sent at {first_sent.text}, more than key_ttl="
            f"{self.sink.key_ttl.text!r} ago: the server may have forgotten its keys, and would act a second time.",
            fix=f"Find out what it has done. If it may act again, {ACKNOWLEDGE}: the tick is sent again, under the same keys.",
        )

    def _sent(self, delivery: Delivery, require_remembered: Callable[[], None]) -> int:
        lanes = Lanes(self._lanes(delivery), shared=not self.target.key)
        stop = lanes.stop

        def send(call: Call) -> None:
            self.sender.send(call, stop, require_remembered)

        return lanes.send_all(self._calls(delivery), send)

    def _lanes(self, delivery: Delivery) -> int:
        in_order = self.target.rows == "changelog" and not self.target.key
        return 1 if in_order else max(min(self.sink.concurrency, delivery.rows), 1)

    def _calls(self, delivery: Delivery) -> Iterator[tuple[bytes, Call]]:
        """The calls of a tick, each with its key as text."""
        place = 0
        columns = self.target.delivered
        of_key = Schema(tuple((name, columns[name]) for name in self.target.key))
        for table in delivered_tables(self.target, delivery):
            for text, body in zip(_key_lines(table, of_key), _lines(table, columns), strict=True):
                who = f" with the key {text.decode()}" if text else ""
                about = f"The row {place} of tick {delivery.tick}{who}, sent by {self.target},"
                key = idempotency_key(self.target, delivery.tick, place)
                yield text, Call(place=place, key=key, body=body, about=about)
                place += 1


class Lanes:
    """Threads that send, each one call after the other. Calls of one key go to one lane; without keys all lanes share.

    Law: no two calls of one key are under way at a time, and they are made in order.
    """

    def __init__(self, count: int, *, shared: bool) -> None:
        self.stop = threading.Event()
        self.failures: list[tuple[int, BaseException]] = []
        self.queues: list[queue.Queue[Call | None]] = [
            queue.Queue(_WAITING * (count if shared else 1)) for _ in range(1 if shared else count)
        ]
        self.threads = count

    def send_all(self, calls: Iterator[tuple[bytes, Call]], send: Callable[[Call], None]) -> int:
        """Send every call, and wait for all; how many. What the first that failed raised is raised when all have ended."""
        threads = [
            threading.Thread(target=self._work, args=(self._queue(number), send), daemon=True)
            for number in range(self.threads)
        ]
        for thread in threads:
            thread.start()
        sent = 0
        try:
            for text, call in calls:
                if self.stop.is_set():
                    break
                self._queue(zlib.crc32(text)).put(call)
                sent += 1
        except BaseException:
            self.stop.set()
            raise
        finally:
            for number in range(self.threads):
                self._queue(number).put(None)
            for thread in threads:
                thread.join()
        if self.failures:
            raise min(self.failures, key=lambda each: each[0])[1]
        return sent

    def _queue(self, number: int) -> queue.Queue[Call | None]:
        return self.queues[number % len(self.queues)]

    def _work(self, calls: queue.Queue[Call | None], send: Callable[[Call], None]) -> None:
        while (call := calls.get()) is not None:
            if self.stop.is_set():
                continue  # so that nobody waits to put one more
            try:
                send(call)
            except Stopped:
                pass
            except BaseException as error:
                self.failures.append((call.place, error))
                self.stop.set()


def is_header_value(value: str) -> bool:
    """Whether a text can be sent as the value of a header."""
    return value.isascii() and value.isprintable() and value == value.strip()


def _lines(table: pl.DataFrame, columns: Schema) -> list[bytes]:
    """A JSON object for each row."""
    return b"".join(FORMATS["json"].encode([table.select(list(columns))], columns)).split(b"\n")[:-1]


def _key_lines(table: pl.DataFrame, columns: Schema) -> list[bytes]:
    """The key of each row. -0.0 is 0.0 there, so that equal keys are equal texts."""
    if not columns:
        return [b""] * table.height
    return _lines(with_one_zero(table, columns, columns), columns)


def _require_not_gone_back(sink: HttpSink, target: Target) -> None:
    """SinkError where a flow that went back to a savepoint would call: under new keys the server knows nothing again.

    Said before anything of the new incarnation is committed, so that it is said at every start until it is acknowledged.
    """
    if target.restored_from is None or target.acknowledged or sink.replay or target.last is not None:
        return
    raise SinkError(
        f"The flow went back to a savepoint; {target} would call for its rows again, under new keys.",
        fix=f"Leave this sink out of the flow. If the server may act again, {ACKNOWLEDGE}; if it always may, give replay=True.",
    )


def _client(sink: HttpSink) -> httpx.Client:
    import httpx

    headers = revealed(sink.headers)
    for name, value in headers.items():
        if not is_header_value(value):  # which is not repeated here
            raise RunError(
                f"The secret for the header {name!r} cannot be sent.",
                fix="Let it be printable ASCII, without blanks around it.",
            )
    try:
        httpx.URL(sink.url)
    except httpx.InvalidURL as error:
        raise RunError(f"The url {sink.url!r} cannot be called: {error}", fix="Write 'https://host/path'.") from None
    return httpx.Client(
        headers={"Content-Type": "application/json", **headers},
        timeout=sink.timeout / 1_000_000,
        limits=httpx.Limits(max_connections=sink.concurrency, max_keepalive_connections=sink.concurrency),
        follow_redirects=False,
    )


def _now() -> Instant:
    return Instant.of(datetime.now(timezone.utc))

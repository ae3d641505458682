"""Where publishers of the matrix publish to: for each kind of server a sink, a reader beside it, and its last word."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import psycopg
import redis

from chaos.judging import Rows
from chaos.servers.ticks import APPENDED, KEYS, UPSERTED, amounts_to
from strandline.clients.kafka import Cluster
from strandline.operations.processes import until
from strandline.sinks.contract import Sink, Target
from strandline.sinks.database import DatabaseSink
from strandline.sinks.http.description import HttpSink
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.redis.description import RedisSink
from tests.sinks.http_calls.paying import Payments
from tests.sinks.kafka.broker import new_topic
from tests.sinks.kafka.reader import Seen, read, reading

LOOKS_EVERY: Final = 0.02  # seconds, for a reader that asks again and again
WAIT: Final = "60s"  # for a server that is killed and started again
CHUNK: Final = 10  # rows of a transaction of Kafka's: a tick is three


class Server(Protocol):
    """A server that can be killed, and goes on with what it has on the disk."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    def kill(self) -> None: ...
    def restart(self) -> Any: ...


class Outlet(Protocol):
    """A place of its own on a server. `text` is what another process makes the same sink of, at this port."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def server(self) -> Server | None: ...
    def text(self, port: int | None = None) -> str: ...
    def watched(self) -> AbstractContextManager[Callable[[], list[str]]]: ...
    def found(self) -> Rows: ...


def sink_of(text: str) -> tuple[Sink, Target]:
    """The sink of an outlet, and its target."""
    told = json.loads(text)
    kind, address, name = told["kind"], told["address"], told["name"]
    if kind == "kafka":
        return KafkaSink(
            Cluster(address), name, key="k", chunk_rows=CHUNK, transaction_timeout="10s", wait=WAIT
        ), APPENDED
    if kind == "redis":
        return RedisSink(address, name, batch=2, wait=WAIT), UPSERTED
    if kind == "http":
        return HttpSink(address, backoff="1ms", longest_backoff="5ms", pause="20ms", concurrency=3), APPENDED
    return DatabaseSink(address, name, wait=WAIT), UPSERTED if kind == "postgres upsert" else APPENDED


@dataclass
class Topic:
    """A topic of Kafka. The reader has isolation.level=read_committed."""

    server: Server
    name: str = "Kafka"
    target: Target = APPENDED
    topic: str = ""
    seen: Sequence[Seen] = ()

    def __post_init__(self) -> None:
        self.topic = new_topic(self.server.address)

    def text(self, port: int | None = None) -> str:
        return _text("kafka", self.server.address, self.topic)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[str]]]:
        with reading(self.server.address, self.topic) as seen:
            yield lambda: [
                *out_of_order(seen),
                *_gone(seen, read(self.server.address, self.topic, at_least=len(seen))),
            ]
            final = set(read(self.server.address, self.topic))
            if not until(lambda: set(seen) == final, within=30.0):
                raise AssertionError(f"the reader saw {len(seen)} messages, and {len(final)} are there")

    def found(self) -> Rows:
        return Counter(_row(each) for each in read(self.server.address, self.topic))


def _row(seen: Seen) -> tuple[Any, ...]:
    value = json.loads(seen[3] or b"null")
    return value["k"] if "k" in value else value["key"], value["n"]


def out_of_order(seen: Sequence[Seen]) -> list[str]:
    """Numbers of one key that do not grow; the same one twice, too."""
    last: dict[str, int] = {}
    wrong = []
    for key, number in map(_row, list(seen)):
        if number <= last.get(key, -1):
            wrong.append(f"{number} of {key} came behind {last[key]}")
        last[key] = number
    return wrong


def _gone(seen: Sequence[Seen], final: Sequence[Seen]) -> list[str]:
    missing = set(seen) - set(final)
    return [f"{len(missing)} messages were seen, and are gone"] if missing else []


@dataclass
class Table:
    """A table of PostgreSQL, appended to or upserted. The reader sees whole ticks, and never an earlier one again."""

    server: Server
    upserted: bool
    table: str = field(default_factory=lambda: f"rows_{uuid.uuid4().hex[:10]}")

    @property
    def name(self) -> str:
        return f"PostgreSQL, {self.target.rows}"

    @property
    def target(self) -> Target:
        return UPSERTED if self.upserted else APPENDED

    def text(self, port: int | None = None) -> str:
        address = self.server.address.replace(f":{self.server.port}/", f":{port or self.server.port}/")
        return _text("postgres upsert" if self.upserted else "postgres", address, self.table)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[str]]]:
        wrong: list[str] = []
        last = [0]

        def look() -> None:
            found = self.found()
            newest = max((n for _, n in found), default=0) // (KEYS if self.upserted else amount)
            if newest < last[0]:
                wrong.append(f"tick {last[0]} was seen, and then tick {newest}")
            elif found != amounts_to(self.target, newest):
                wrong.append(f"{found.total()} rows are no whole tick {newest}")
            last[0] = max(last[0], newest)

        amount = amounts_to(APPENDED, 1).total()
        with _looking(look, wrong):
            yield lambda: wrong

    def found(self) -> Rows:
        with psycopg.connect(self.server.address, autocommit=True, connect_timeout=20) as connection:
            if connection.execute("SELECT to_regclass(%s)", (self.table,)).fetchone() == (None,):
                return Counter()
            return Counter(connection.execute(f"SELECT k, n FROM {self.table}").fetchall())


@dataclass
class Entries:
    """Entries of Redis. The reader sees no value of a key go back."""

    server: Server
    name: str = "Redis"
    target: Target = UPSERTED
    prefix: str = field(default_factory=lambda: f"chaos-{uuid.uuid4().hex[:10]}:")

    def text(self, port: int | None = None) -> str:
        return _text("redis", f"redis://127.0.0.1:{port or self.server.port}", self.prefix)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[str]]]:
        wrong: list[str] = []
        last: dict[str, int] = {}

        def look() -> None:
            for key, value in self.found():
                if value < last.get(key, -1):
                    wrong.append(f"{key} was {last[key]}, and then {value}")
                last[key] = value

        with _looking(look, wrong):
            yield lambda: wrong

    def found(self) -> Rows:
        with redis.Redis.from_url(self.server.address, decode_responses=True) as client:
            entries = [client.hgetall(name) for name in client.scan_iter(f"{self.prefix}*", count=1_000)]
        return Counter((entry["k"], int(entry["n"])) for entry in entries if "n" in entry)


@dataclass
class Charges:
    """A server of payments, which acts, and then drops a tenth of its answers. Its ledger is the judge."""

    payments: Payments
    address: str
    name: str = "Http"
    target: Target = APPENDED
    server: Server | None = None

    def __post_init__(self) -> None:
        self.payments.drop_every = 10

    def text(self, port: int | None = None) -> str:
        return _text("http", self.address, "")

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[str]]]:
        yield lambda: [f"{row} was charged {n} times" for row, n in self.found().items() if n > 1]

    def found(self) -> Rows:
        return Counter((row["k"], row["n"]) for row in list(self.payments.ledger))


def _text(kind: str, address: str, name: str) -> str:
    return json.dumps({"kind": kind, "address": address, "name": name})


@contextmanager
def _looking(look: Callable[[], None], wrong: list[str]) -> Iterator[None]:
    """Look again and again, in a thread; a server that is away has nothing to show. What ends the looking is wrong too."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(LOOKS_EVERY):
            try:
                with suppress(psycopg.OperationalError, redis.RedisError, OSError):
                    look()
            except Exception as error:  # noqa: PERF203 - it is looked again and again
                wrong.append(f"nobody looks any more: {error!r}")
                raise

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

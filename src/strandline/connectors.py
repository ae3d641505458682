"""Places that are read, written and asked: one object with its verbs, `read`, `write` and `lookup`.

Sources, sinks and lookups do not know each other; a connector knows all, so it stands outside of the rings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from strandline.clients.kafka import Cluster
from strandline.clients.registry import Registry
from strandline.errors import DescriptionError, told
from strandline.lookups.database import DatabaseLookup
from strandline.lookups.http import MISSING, HttpLookup
from strandline.lookups.redis import Holds, RedisLookup
from strandline.model.secrets import Secret
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.sinks.database import DatabaseSink
from strandline.sinks.delta.description import DeltaSink
from strandline.sinks.files import FileFormat, FileSink, Layout
from strandline.sinks.http.description import RETRY_ON, HttpSink
from strandline.sinks.kafka.description import KafkaSink, MessageFormat
from strandline.sinks.redis.description import RedisSink
from strandline.sources.files import FileSource, Format, OnBad
from strandline.sources.kafka.description import Format as MessagesFormat
from strandline.sources.kafka.description import Included, Isolation, KafkaSource, OnLost


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of files. Object stores are written by url (s3://, gs://, az://); files are read here only.

    `~` is the home of the user who describes the flow.

    >>> orders = Files("data/orders").read(format="json", schema="user string, at timestamp")
    >>> late = Files("out/late").write(format="json")
    >>> orders.path, late.path
    ('data/orders', 'out/late')
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise DescriptionError(
                f"{told(self.path)} is no place for files.", fix="Give a path: Files('data/orders')."
            )
        object.__setattr__(self, "path", os.path.expanduser(self.path))

    def read(
        self,
        *,
        format: Format,
        schema: str | Schema,
        pattern: str | None = None,
        partition_by: str | None = None,
        on_bad: OnBad = "reject",
        header: bool = True,
        separator: str = ",",
        max_files_per_tick: int | None = None,
    ) -> FileSource:
        """Every file that is in the folder, or will be put there, once each. `FileSource` says the rest."""
        return FileSource(
            self.path, format=format, schema=schema, pattern=pattern, partition_by=partition_by, on_bad=on_bad,
            header=header, separator=separator, max_files_per_tick=max_files_per_tick,
        )  # fmt: skip

    def write(self, *, format: FileFormat = "parquet", layout: Layout = "ticks") -> FileSink:
        """A file for each tick that has rows, or files named by a log. `FileSink` says the rest."""
        return FileSink(self.path, format=format, layout=layout)


@dataclass(frozen=True, slots=True)
class Database:
    """A database, by its url. `password` and `options`, settings of its client, are for a server's.

    >>> Database("sqlite:///out.db").write("revenue").table
    'revenue'
    >>> Database("postgresql://ann@db/shop", password=Secret.env("DB_PASSWORD")).write("public.revenue").table
    'public.revenue'
    """

    url: str
    password: Secret | None = None
    options: Mapping[str, object] | tuple[tuple[str, str | Secret], ...] | None = None

    def __post_init__(self) -> None:
        checked = DatabaseSink(self.url, "any", password=self.password, options=self.options)
        object.__setattr__(self, "options", checked.options)  # what cannot be used is said where it stands

    def write(
        self, table: str, *, wait: str | timedelta | Span = Span(30_000_000), nul: str | None = None
    ) -> DatabaseSink:
        """A table; the rows of a tick and its marker are one transaction. `DatabaseSink` says the rest."""
        return DatabaseSink(self.url, table, password=self.password, options=self.options, wait=wait, nul=nul)

    def lookup(self, table: str, *, key: str | Sequence[str] = (), connections: int = 4) -> DatabaseLookup:
        """The row of a table for each key, for `.lookup(...)` of a stream. `DatabaseLookup` says the rest."""
        return DatabaseLookup(
            self.url, table, keys=key, password=self.password, options=self.options, connections=connections
        )


@dataclass(frozen=True, slots=True)
class Kafka:
    """A cluster of Kafka, by its brokers. `options` are settings of librdkafka (SASL, TLS); secrets stand there as `Secret`.

    `registry` is where the schemas of Avro are: a url, or a `Registry` with its own options.

    >>> kafka = Kafka("broker:9092", {"sasl.username": "ann", "sasl.password": Secret.env("KAFKA_PASSWORD")})
    >>> kafka.read("orders", format="json", schema="user string, at timestamp").topics
    ('orders',)
    >>> kafka.write("paid", key="user").topic
    'paid'
    """

    cluster: Cluster
    registry: Registry | None

    def __init__(
        self, servers: str, options: Mapping[str, object] | None = None, *, registry: Registry | str | None = None
    ) -> None:
        object.__setattr__(self, "cluster", Cluster(servers, options))
        object.__setattr__(self, "registry", Registry(registry) if isinstance(registry, str) else registry)

    def read(
        self,
        topics: str | Sequence[str] | Mapping[str, Iterable[int]] | None = None,
        *,
        pattern: str | None = None,
        format: MessagesFormat,
        schema: str | Schema | None = None,
        start: str | datetime | int | Mapping[str, Mapping[int, int]] = "earliest",
        include: Iterable[Included] = (),
        isolation: Isolation = "read_committed",
        on_lost: OnLost = "fail",
        on_bad: OnBad = "reject",
        separator: str = ",",
        wait: str | timedelta | Span = Span(60_000_000),
        look_again: str | timedelta | Span = Span(30_000_000),
    ) -> KafkaSource:
        """The messages of topics, each once. `KafkaSource` says the rest."""
        return KafkaSource(
            self.cluster, topics, pattern=pattern, format=format, schema=schema, start=start, include=include,
            isolation=isolation, on_lost=on_lost, on_bad=on_bad, separator=separator, wait=wait, look_again=look_again,
            registry=self.registry if format == "avro" else None,
        )  # fmt: skip

    def write(
        self,
        topic: str,
        *,
        key: str | Sequence[str] = (),
        format: MessageFormat = "json",
        headers: Mapping[str, str] | None = None,
        create: Mapping[str, Any] | None = None,
        transaction_timeout: str | timedelta | Span = Span(60_000_000),
        chunk_rows: int = 200_000,
        wait: str | timedelta | Span = Span(60_000_000),
    ) -> KafkaSink:
        """Rows as messages of a topic; a tick is one transaction. `KafkaSink` says the rest."""
        return KafkaSink(
            self.cluster, topic, key=key, format=format, headers=headers, create=create,
            transaction_timeout=transaction_timeout, chunk_rows=chunk_rows, wait=wait,
            registry=self.registry if format == "avro" else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Redis:
    """A Redis, by its url. `options`: `username`, `password` (a `Secret`) and `ssl_*`.

    >>> Redis("redis://localhost:6379").write("features:", ttl="30d").prefix
    'features:'
    """

    url: str
    options: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        self.write("any:")  # what cannot be used is said where it stands

    def write(
        self,
        prefix: str,
        *,
        ttl: str | timedelta | Span | None = None,
        batch: int = 500,
        wait: str | timedelta | Span = Span(30_000_000),
    ) -> RedisSink:
        """An entry for each key, under a prefix. `RedisSink` says the rest."""
        return RedisSink(self.url, prefix, ttl=ttl, options=self.options, batch=batch, wait=wait)

    def lookup(self, prefix: str, *, holds: Holds = "hash") -> RedisLookup:
        """The entry of each key, for `.lookup(...)` of a stream. `RedisLookup` says the rest."""
        return RedisLookup(self.url, prefix, holds=holds, options=self.options)


@dataclass(frozen=True, slots=True)
class Http:
    """A server that is called, by its url. Secrets in `headers` stand there as `Secret`.

    >>> Http("https://pay.example/charges", {"Authorization": Secret.env("PAY_TOKEN")}).write(key_ttl="24h").key_ttl
    Span('1d')
    """

    url: str
    headers: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        self.write()  # what cannot be used is said where it stands

    def write(
        self,
        *,
        method: str = "POST",
        key_header: str = "Idempotency-Key",
        key_ttl: str | timedelta | Span = Span(24 * 3_600_000_000),
        concurrency: int = 8,
        timeout: str | timedelta | Span = Span(10_000_000),
        retries: int = 8,
        backoff: str | timedelta | Span = Span(200_000),
        longest_backoff: str | timedelta | Span = Span(30_000_000),
        retry_on: Iterable[int] = RETRY_ON,
        accept: Iterable[int] = (),
        break_after: int = 10,
        pause: str | timedelta | Span = Span(10_000_000),
        replay: bool = False,
    ) -> HttpSink:
        """A call for each row, which has its effect once where the server knows its key again. `HttpSink` says the rest."""
        return HttpSink(
            self.url, method=method, headers=self.headers, key_header=key_header, key_ttl=key_ttl,
            concurrency=concurrency, timeout=timeout, retries=retries, backoff=backoff, longest_backoff=longest_backoff,
            retry_on=retry_on, accept=accept, break_after=break_after, pause=pause, replay=replay,
        )  # fmt: skip

    def lookup(
        self, path: str = "", *, missing: Iterable[int] = MISSING, retry_on: Iterable[int] = RETRY_ON
    ) -> HttpLookup:
        """What the server says of each key, for `.lookup(...)` of a stream. `HttpLookup` says the rest.

        `path`, behind the url, has the key's columns in braces: "/users/{user}".
        """
        return HttpLookup(self.url + path, headers=self.headers, missing=missing, retry_on=retry_on)


@dataclass(frozen=True, slots=True)
class Delta:
    """A Delta table, by its path or url. `options` are the storage's; secrets stand there as `Secret`.

    >>> Delta("out/revenue").write(partition_by="day").partition_by
    ('day',)
    """

    path: str | os.PathLike[str]
    options: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        self.write()  # what cannot be used is said where it stands

    def write(self, *, partition_by: str | Sequence[str] = ()) -> DeltaSink:
        """Rows of the table; a tick is one commit. `DeltaSink` says the rest."""
        return DeltaSink(self.path, partition_by=partition_by, options=self.options)

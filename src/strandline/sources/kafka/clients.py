"""Clients of Kafka that are kept between ticks, in the process that plans and in workers.

To make a consumer and let it find its brokers takes longer than many a tick. One that is not in use waits here for the
next who needs one like it; who uses it has it alone. One that failed is closed and not used again: the next is made with
secrets read anew.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline.clients.kafka import Cluster, is_fatal, require_confluent
from strandline.errors import RunError
from strandline.model.time import Span

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

MOST_KEPT: Final = 8
"""Clients that wait in one process; the one that waited longest is closed."""

_FAST: Final = {
    # A consumer that has read to the end asks again at once. Whoever comes next must not wait for that answer.
    "fetch.wait.max.ms": 5,
    "fetch.error.backoff.ms": 50,
    "queued.max.messages.kbytes": 32_768,
    "reconnect.backoff.max.ms": 2_000,
    "socket.nagle.disable": True,
}
"""Settings for short reads, which options may replace."""

_PAUSE: Final = 0.25
_TRANSIENT: Final = (
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE", "_WAIT_CACHE", "_DESTROY_BROKER",
    "_LEADER", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
    "NOT_CONTROLLER", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE",
    "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "_NOENT",
)  # fmt: skip
_REFUSED: Final = ("_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "_CRIT_SYS_RESOURCE")


@dataclass(slots=True)
class Said:
    """What a client said besides its answers: why brokers cannot be reached, most often."""

    last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:  # noqa: D102 - the client calls it
        self.last = error

    @property
    def refusal(self) -> KafkaError | None:
        """An error that asking again will not mend."""
        return self.last if self.last is not None and is_one_of(self.last, _REFUSED) else None


@dataclass(slots=True)
class Kept:
    """One client, and what it said."""

    client: Any
    said: Said = field(default_factory=Said)


@contextmanager
def consumer(cluster: Cluster, isolation: str) -> Iterator[tuple[Consumer, Said]]:
    """A consumer for the caller alone, without an assignment."""
    with _borrowed(("consumer", cluster, isolation), lambda: _new_consumer(cluster, isolation)) as kept:
        try:
            yield kept.client, kept.said
        finally:
            kept.client.unassign()


@contextmanager
def admin(cluster: Cluster) -> Iterator[tuple[AdminClient, Said]]:
    """A client that lists topics and offsets, for the caller alone."""
    with _borrowed(("admin", cluster), lambda: _new_admin(cluster)) as kept:
        yield kept.client, kept.said


def ask(cluster: Cluster, what: str, wait: Span, question: Callable[[AdminClient], T]) -> T:
    """Ask the brokers; while they are away, ask again, until `wait` is over. RunError says that it is."""
    from confluent_kafka import KafkaException

    until = time.monotonic() + wait / 1_000_000
    while True:
        try:
            with admin(cluster) as (client, said):
                try:
                    return question(client)
                finally:
                    client.poll(0)  # lets it say why
        except KafkaException as error:  # noqa: PERF203 - asked again on purpose
            refusal = said.refusal
            if refusal is not None or not is_transient(error.args[0]) or is_fatal(error):
                raise refused(cluster, what, refusal or error.args[0]) from None
            if time.monotonic() + _PAUSE > until:
                raise unanswered(cluster, what, wait, said.last or error.args[0]) from None
            time.sleep(_PAUSE)


def is_transient(error: KafkaError) -> bool:
    """Whether the same question may be answered later."""
    return error.retriable() or is_one_of(error, _TRANSIENT)


def is_one_of(error: KafkaError, names: tuple[str, ...]) -> bool:
    """Whether an error has one of some names."""
    return error.name() in names


def unanswered(cluster: Cluster, what: str, wait: Span, error: object) -> RunError:
    """Brokers that were away for too long."""
    told = cluster.said(str(error)) if error is not None else "nothing"
    return RunError(
        f"Kafka at {cluster.servers} did not answer for {wait.text} when asked for {what}; last it said: {told}",
        fix="See that the brokers run and can be reached, then start the flow again: it goes on where it was.",
    )


def refused(cluster: Cluster, what: str, error: object) -> RunError:
    """Brokers that said no."""
    return RunError(
        f"Kafka at {cluster.servers} refuses {what}: {cluster.said(str(error))}",
        fix="Mend the options of sl.Kafka, or what this user may do there; the flow goes on where it was.",
    )


def close_all() -> None:
    """Close the clients that wait in this process."""
    for kept in _pool.emptied():
        _close(kept)


class _Pool:
    """The clients that wait in this process, those that waited longest first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[tuple[tuple[Any, ...], Kept]] = []
        self.left_alone: list[Any] = []

    def take(self, key: tuple[Any, ...]) -> Kept | None:
        with self.lock:
            for place, (known, kept) in enumerate(self.waiting):
                if known == key:
                    del self.waiting[place]
                    return kept
        return None

    def give_back(self, key: tuple[Any, ...], kept: Kept) -> list[Kept]:
        """Those that are too many now."""
        with self.lock:
            self.waiting.append((key, kept))
            return [self.waiting.pop(0)[1] for _ in range(len(self.waiting) - MOST_KEPT)]

    def emptied(self) -> list[Kept]:
        with self.lock:
            gone, self.waiting = self.waiting, []
        return [kept for _, kept in gone]

    def forget(self) -> None:
        """After a fork the threads of clients are not here: they can be neither used nor closed, only left alone."""
        self.lock = threading.Lock()
        self.left_alone.append(self.waiting)
        self.waiting = []


@contextmanager
def _borrowed(key: tuple[Any, ...], make: Callable[[], Kept]) -> Iterator[Kept]:
    kept = _pool.take(key) or make()
    kept.said.last = None
    try:
        yield kept
    except BaseException:
        _close(kept)
        raise
    for each in _pool.give_back(key, kept):
        _close(each)


def _close(kept: Kept) -> None:
    if hasattr(kept.client, "close"):
        kept.client.close()


def _new_consumer(cluster: Cluster, isolation: str) -> Kept:
    require_confluent()
    from confluent_kafka import Consumer

    said = Said()
    settings = cluster.settings(
        # Partitions are assigned and positions are ours: the group is a name that no broker keeps anything under.
        group_id="strandline", enable_auto_commit=False, enable_auto_offset_store=False, auto_offset_reset="error",
        isolation_level=isolation, enable_partition_eof=True, error_cb=said,
    )  # fmt: skip
    return Kept(_made(Consumer, cluster, settings), said)


def _new_admin(cluster: Cluster) -> Kept:
    require_confluent()
    from confluent_kafka.admin import AdminClient

    said = Said()
    return Kept(_made(AdminClient, cluster, cluster.settings(error_cb=said)), said)


def _made(kind: Callable[[dict[str, Any]], Any], cluster: Cluster, settings: dict[str, Any]) -> Any:
    from confluent_kafka import KafkaException

    chosen = {name.replace(".cb", "_cb"): value for name, value in settings.items()}
    try:
        return kind({**(_FAST if "isolation.level" in chosen else {}), **chosen})
    except (KafkaException, TypeError, ValueError) as error:
        raise RunError(
            f"A client of Kafka cannot be made: {cluster.said(error)}", fix="Mend the options of sl.Kafka."
        ) from None


_pool: Final = _Pool()
os.register_at_fork(after_in_child=_pool.forget)
atexit.register(close_all)

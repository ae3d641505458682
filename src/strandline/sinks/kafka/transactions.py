"""One producer from its fence on, and the transactions that it makes: messages and the marker, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from strandline.clients.kafka import Cluster
from strandline.errors import SinkError
from strandline.sinks.kafka.errors import (
    Fenced,
    Unsettled,
    is_fenced,
    is_retriable,
    made,
    name_of_code,
    requires_abort,
    sorted_out,
)  # fmt: skip
from strandline.sinks.kafka.markers import Progress
from strandline.sinks.kafka.messages import Messages
from strandline.sinks.kafka.offsets import group_of
from strandline.sinks.kafka.waiting import Call, let_go, within

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer

# What a user may choose otherwise, by the options of the cluster.
_CHOSEN: Final[dict[str, Any]] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 262_144,
    "partitioner": "murmur2_random",  # Java's own, so that its producers and ours agree on where a key goes
}
_PATIENCE: Final = 0.1
_SLICE: Final = 10.0  # a call that does not come back is noticed that soon


class Transactions:
    """A transactional producer. Whatever it raises, it is not used any more: a new one fences, and asks the marker.

    Law: when `commit` returns, the messages since `begin` and the progress given to `mark` are visible; when the process
    ends before, none of them is, or all are.
    """

    def __init__(
        self, cluster: Cluster, topic: str, name: str, *, timeout: float, wait: float, largest: int | None = None
    ) -> None:
        self.cluster, self.topic, self.name = cluster, topic, name
        self.timeout, self.wait = timeout, wait
        self.began = 0.0
        self.failed: Any = None
        self.marking: Call[None] | None = None
        self.largest = largest
        self.producer = self._made()
        try:
            self._calls("could not be fenced", lambda seconds: Call(seconds, self.producer.init_transactions))
            self.group = group_of(cluster, name)
        except BaseException:
            self.drop()
            raise

    def begin(self) -> None:
        """Begin a transaction."""
        self.began, self.marking = time.monotonic(), None
        self._calls("could not begin a transaction", lambda _: Now(self.producer.begin_transaction))

    @property
    def age(self) -> float:
        """For how many seconds the transaction is open."""
        return time.monotonic() - self.began

    def send(self, messages: Messages) -> None:
        """Give messages to the producer, in order; where its queue is full, wait until some are gone."""
        produce, topic = self.producer.produce, self.topic
        for number, (key, value, headers) in enumerate(messages):
            try:
                while True:
                    try:
                        produce(topic, value, key) if headers is None else produce(topic, value, key, headers=headers)
                        break
                    except BufferError:
                        self._make_room()
            except Exception as error:
                raise self._told_of(error, messages, number) from None
        self.producer.poll(0)
        self._require_sent()

    def mark(self, progress: Progress) -> None:
        """Send the progress that the transaction brings, beside the messages. The last one counts."""
        self._wait_for_marker()
        self.marking = self._marked(progress, _SLICE)
        self.progress = progress

    def commit(self) -> None:
        """Make messages and progress visible, in one act. Unsettled where nobody knows whether it happened."""
        self._wait_for_marker()
        commit = self.producer.commit_transaction
        self._calls("could not be committed", lambda seconds: Now(lambda: commit(seconds)))

    def _wait_for_marker(self) -> None:
        begun, self.marking = self.marking, None
        if begun is not None:
            calls = [begun]
            self._calls(
                "could not send its marker",
                lambda seconds: calls.pop() if calls else self._marked(self.progress, seconds),
            )

    def _marked(self, progress: Progress, seconds: float) -> Call[None]:
        from confluent_kafka import TopicPartition

        place = TopicPartition(
            self.topic, 0, 0, progress.text
        )  # the number of the offset is nothing that anybody reads
        return Call(seconds, lambda timeout: self.producer.send_offsets_to_transaction([place], self.group, timeout))

    def abort(self) -> None:
        """Leave nothing of the transaction behind, as far as the broker can be reached. Fenced where it says so."""
        try:
            within(min(self.wait, 5.0), self.producer.abort_transaction)
        except Exception as error:  # what cannot be aborted now, the next producer's fence aborts
            if is_kafka(error) and is_fenced(error):
                raise self._fenced(error) from None

    def drop(self) -> None:
        """Let go of the producer: what it still has in hand is given up. A broker that is away is not waited for."""
        let_go(self, "producer", wait=1.0)

    def _made(self) -> Producer:
        from confluent_kafka import Producer

        given = {name for name, _ in self.cluster.options}
        chosen: dict[str, Any] = {name: value for name, value in _CHOSEN.items() if name not in given}
        if self.largest is not None and "message.max.bytes" not in given:
            chosen["message.max.bytes"] = self.largest
            if "batch.size" not in given:
                chosen["batch.size"] = min(1_000_000, self.largest)
        settings = self.cluster.settings(transactional_id=self.name)
        ours = {
            "transaction.timeout.ms": int(self.timeout * 1000), "enable.idempotence": True,
            "delivery.report.only.error": True, "on_delivery": self._not_sent,
        }  # fmt: skip
        producer: Producer = made(Producer, {**settings, **chosen, **ours}, self.cluster)
        return producer

    def _not_sent(self, error: Any, message: Any) -> None:
        self.failed = self.failed or error

    def _require_sent(self) -> None:
        if self.failed is not None:
            from confluent_kafka import KafkaException

            raise self._sorted(KafkaException(self.failed), f"The topic {self.topic!r} did not take a message")

    def _make_room(self) -> None:
        self.producer.poll(_PATIENCE)
        self._require_sent()
        if self.age > self.timeout:
            raise Unsettled(f"the broker took no messages for {self.timeout:g} s")

    def _calls(self, what: str, call: Callable[[float], Call[Any] | Now]) -> None:
        """Make a call until it is answered, for as long as is waited for a broker."""
        deadline = time.monotonic() + self.wait
        while True:
            try:
                left = max(deadline - time.monotonic(), 0.1)
                return self._once(what, call(min(left, self.wait / 4, _SLICE)))
            except _Again as again:  # noqa: PERF203 - called again is what it is
                if time.monotonic() >= deadline:
                    raise Unsettled(str(again)) from None
                time.sleep(_PATIENCE)

    def _once(self, what: str, call: Call[Any] | Now) -> None:
        from confluent_kafka import KafkaException

        try:
            call.result()
        except KafkaException as error:
            if is_retriable(error) and not is_fenced(error):
                raise _Again(self._said(error.args[0].str())) from None
            if requires_abort(error):
                self._require_sent()  # which says more than that a message failed
            raise self._sorted(error, f"The producer {self.name!r} {what}") from None

    def _told_of(self, error: Exception, messages: Messages, number: int) -> Exception:
        if not is_kafka(error):
            return error
        if name_of_code(error) == "MSG_SIZE_TOO_LARGE":
            return self._too_large(messages, number)
        return self._sorted(error, f"A message could not be given to the producer {self.name!r}")

    def _sorted(self, error: KafkaException, doing: str) -> Exception:
        return self._fenced(error) if is_fenced(error) else sorted_out(error, doing, self._said)

    def _fenced(self, error: KafkaException) -> Fenced:
        begun = self.began > 0
        return Fenced(self._said(error.args[0].str()), age=self.age if begun else 0.0, limit=self.timeout)

    def _too_large(self, messages: Messages, number: int) -> SinkError:
        key, value, _ = messages[number]
        limit = "" if self.largest is None else f"; the topic {self.topic!r} takes {self.largest:,}"
        return SinkError(
            f"The message with the key {_shown(key)} has {len(value or b'') + len(key or b''):,} bytes{limit}.",
            fix="Raise the topic's max.message.bytes (and the broker's message.max.bytes), or send smaller rows; nothing of "
            "this tick was published.",
        )

    def _said(self, error: Any) -> str:
        return self.cluster.said(error)


class Now:
    """A call that the caller makes itself: one that is known to end."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result = call


class _Again(Exception):
    """A call that may be made again."""


def is_kafka(error: BaseException) -> TypeGuard[KafkaException]:
    """Whether the client of Kafka raised it."""
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException)


def _shown(key: bytes | None) -> str:
    if key is None:
        return "null"
    text = key[:100].decode(errors="replace")
    return repr(text + "…" if len(key) > 100 else text)

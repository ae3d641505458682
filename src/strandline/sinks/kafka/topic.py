"""A topic as it is found at the start: that it is there, what its brokers are set to, and what people should know of that."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline.clients.kafka import Cluster
from strandline.errors import SinkError
from strandline.model.time import Span
from strandline.sinks.contract import Rows
from strandline.sinks.kafka.errors import Unsettled, made, name_of_code, sorted_out
from strandline.sinks.kafka.waiting import GRACE, let_go

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
_PATIENCE: Final = 0.05
_NEW: Final = 2.0
_READERS: Final = 5_000_000
_LEAST: Final = 1_000_000  # that the client takes for the timeout of a transaction
_FRAMING: Final = 1024  # a batch of one message is larger than its key and value


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """How a topic is made that is not there."""

    partitions: int
    replication: int
    config: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A topic and the settings that a promise rests on; a setting that may not be looked at is not there."""

    replicas: int
    topic: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)

    @property
    def largest(self) -> int | None:
        """How many bytes a message may have."""
        given = self.topic.get("max.message.bytes")
        return None if given is None else max(int(given) - _FRAMING, 1000)

    def told(self, timeout: Span) -> Span:
        """The timeout that the broker is told, so that readers wait for no more than what was asked for and 5 s.

        A broker looks for transactions that are too old only now and then, by default every 10 s.

        >>> Found(replicas=3).told(Span.of("60s")).text
        '55s'
        """
        checks = self.number("transaction.abort.timed.out.transaction.cleanup.interval.ms") or 10_000
        return Span(max(timeout - max(checks * 1000 - _READERS, 0), timeout // 2, _LEAST))

    def number(self, name: str) -> int | None:
        """A setting of the topic, or else of the broker."""
        given = self.topic.get(name, self.broker.get(name))
        return None if given is None else int(given)


class Topic:
    """A topic, through a client that may look at it and make it."""

    def __init__(self, cluster: Cluster, name: str, *, wait: float) -> None:
        self.cluster, self.name, self.wait = cluster, name, wait
        self.heard: Any = None
        self.admin = self._made()

    def found(self, create: Create | None) -> Found:
        """The topic with its settings, made first where it is not there and `create` says how."""
        there = self._partitions()
        if there is None:
            if create is not None:
                self._make(create)
            there = self._waited_for(self.wait if create is not None else _NEW)
        topic, broker = self._settings()
        replicas = min(len(partition.replicas) for partition in there.values())
        return Found(replicas=replicas, topic=topic, broker=broker)

    def is_empty(self) -> bool:
        """Whether nothing was ever written to it."""
        from confluent_kafka import TopicPartition

        there = self._partitions() or {}
        asked = {TopicPartition(self.name, number): _kafka().OffsetSpec.latest() for number in there}

        def question() -> bool:
            answers = self.admin.list_offsets(asked, request_timeout=self.wait)
            return all(_answer(answer, self.wait).offset == 0 for answer in answers.values())

        return self._asked("looked at", question)

    def close(self) -> None:
        """Let go of the client."""
        let_go(self, "admin", wait=1.0)

    def _made(self) -> AdminClient:
        client: AdminClient = made(
            _kafka().AdminClient, {**self.cluster.settings(), "error_cb": self._hear}, self.cluster
        )
        return client

    def _hear(self, error: Any) -> None:
        self.heard = error

    def _asked(self, doing: str, call: Callable[[], T]) -> T:
        """What a call answers; else what the client said, and what it heard meanwhile."""
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as error:
            told = sorted_out(error, f"The topic {self.name!r} could not be {doing}", self.cluster.said)
        except Unsettled as error:
            told = error
        if not isinstance(told, Unsettled):
            raise told
        self.admin.poll(0)  # what it heard meanwhile, a wrong password say, is told to who asks for it
        heard = "" if self.heard is None else f" ({self.cluster.said(self.heard.str())})"
        raise SinkError(
            f"The topic {self.name!r} at {self.cluster.servers} could not be {doing}: {told}{heard}.",
            fix="Look whether the brokers run and can be reached from here, and whether the options fit: security.protocol, "
            "sasl.*, ssl.*.",
        )

    def _partitions(self) -> Mapping[int, Any] | None:
        from confluent_kafka import KafkaException

        def question() -> Mapping[int, Any] | None:
            about = self.admin.list_topics(self.name, timeout=self.wait).topics[self.name]
            if about.error is None:
                return dict(about.partitions)
            error = KafkaException(about.error)
            if name_of_code(error) in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "LEADER_NOT_AVAILABLE"):
                return None
            raise error

        return self._asked("looked at", question)

    def _make(self, create: Create) -> None:
        from confluent_kafka import KafkaException

        new = _kafka().NewTopic(
            self.name,
            num_partitions=create.partitions,
            replication_factor=create.replication,
            config=dict(create.config),
        )

        def question() -> None:
            (answer,) = self.admin.create_topics([new], request_timeout=self.wait).values()
            try:
                _answer(answer, self.wait)
            except KafkaException as error:
                if name_of_code(error) == "TOPIC_ALREADY_EXISTS":
                    return
                raise SinkError(
                    f"The topic {self.name!r} could not be made: {self.cluster.said(error.args[0].str())}.",
                    fix="Mend create=, or make the topic by other means.",
                ) from None

        self._asked("made", question)

    def _waited_for(self, seconds: float) -> Mapping[int, Any]:
        """The topic's partitions: one that was made a moment ago may not be known everywhere yet."""
        deadline = time.monotonic() + seconds
        while (there := self._partitions()) is None:
            if time.monotonic() >= deadline:
                raise SinkError(
                    f"The topic {self.name!r} is not there, at {self.cluster.servers}.",
                    fix="Make it; or have it made: .write(topic, create={'partitions': 8, 'replication': 3}).",
                )
            time.sleep(_PATIENCE)
        return there

    def _settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """Of the topic and of a broker; those that may not be looked at are empty."""
        brokers = self._asked("looked at", lambda: self.admin.list_topics(self.name, timeout=self.wait).brokers)
        resource = _kafka().ConfigResource
        kinds = resource.Type
        asked = [resource(kinds.TOPIC, self.name), resource(kinds.BROKER, str(min(brokers)))]
        answers = self.admin.describe_configs(asked, request_timeout=self.wait)
        return _read(answers[asked[0]], self.wait), _read(answers[asked[1]], self.wait)


def _kafka() -> Any:
    """The client's module for looking after topics; not all of its names have types."""
    from confluent_kafka import admin

    return admin


def _answer(answer: Any, wait: float) -> Any:
    try:
        return answer.result(wait + GRACE)
    except Late:
        raise Unsettled(f"the client did not answer within {wait + GRACE:.0f} s") from None


def _read(answer: Any, wait: float) -> dict[str, str]:
    from confluent_kafka import KafkaException

    try:
        return {name: entry.value for name, entry in _answer(answer, wait).items() if entry.value is not None}
    except (KafkaException, Unsettled):
        return {}


def require_timeout(found: Found, timeout: Span) -> None:
    """SinkError if the broker would not let a transaction be open for so long."""
    greatest = found.number("transaction.max.timeout.ms")
    if greatest is not None and timeout > greatest * 1000:
        raise SinkError(
            f"transaction_timeout={timeout.text!r} is more than the broker's transaction.max.timeout.ms, {greatest:,} ms.",
            fix="Give a smaller transaction_timeout=, with a smaller chunk_rows= if publishing takes so long; or raise it there.",
        )


def notes_on(found: Found, rows: Rows, timeout: Span) -> tuple[str, ...]:
    """What a reader must do, and which settings make the promise weaker, a sentence each."""
    return tuple(note(found, rows, timeout) for note in _NOTES if note(found, rows, timeout))


def _readers(found: Found, rows: Rows, timeout: Span) -> str:
    checks = found.number("transaction.abort.timed.out.transaction.cleanup.interval.ms") or 10_000
    longest = Span(found.told(timeout) + checks * 1000)
    return (
        "readers must set isolation.level=read_committed, else they also see rows of ticks that failed. If the driver stands "
        f"still inside a tick, they wait for up to {longest.text} (transaction_timeout={timeout.text!r})."
    )


def _unknown(found: Found, rows: Rows, timeout: Span) -> str:
    if found.topic and found.broker:
        return ""
    return "the settings of broker or topic may not be looked at, so nobody checked what the promise rests on."


def _one_copy(found: Found, rows: Rows, timeout: Span) -> str:
    logs = ("transaction.state.log.replication.factor", "offsets.topic.replication.factor")
    single = [] if found.replicas > 1 else ["the topic has one replica"]
    single += [f"{name}=1" for name in logs if found.number(name) == 1]
    if not single:
        return ""
    return f"not exactly once if a broker loses its disk: {', '.join(single)}."


def _few_in_sync(found: Found, rows: Rows, timeout: Span) -> str:
    if found.replicas < 2 or found.number("min.insync.replicas") != 1:
        return ""
    return (
        "not exactly once if a broker is lost while others lag: min.insync.replicas=1 acknowledges what one broker has."
    )


def _unclean(found: Found, rows: Rows, timeout: Span) -> str:
    if found.topic.get("unclean.leader.election.enable") != "true":
        return ""
    return "not exactly once: unclean.leader.election.enable=true lets a broker lead that lacks rows which were acknowledged."


def _expires(found: Found, rows: Rows, timeout: Span) -> str:
    minutes = found.number("offsets.retention.minutes")
    if minutes is None or minutes >= 7 * 24 * 60:
        return ""
    return (
        f"a marker is kept for {Span(minutes * 60_000_000).text} (offsets.retention.minutes): a flow that is stopped for longer "
        "is refused at its next start."
    )


def _not_compacted(found: Found, rows: Rows, timeout: Span) -> str:
    policy = found.topic.get("cleanup.policy")
    if rows != "upsert" or policy is None or "compact" in policy:
        return ""
    return f"rows='upsert' is meant for a compacted topic, and this one has cleanup.policy={policy}: old keys are lost with time."


_NOTES: Final = (_readers, _unknown, _one_copy, _few_in_sync, _unclean, _expires, _not_compacted)

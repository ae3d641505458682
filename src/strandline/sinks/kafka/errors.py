"""What Kafka's client says, sorted by what is to be done about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from strandline.errors import SinkError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

    from strandline.clients.kafka import Cluster

_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_REFUSED: Final = (
    "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "_AUTHENTICATION",
)  # fmt: skip
_ACCESS: Final = (
    "Let the user write and describe the topic and the transactional id, and read the group; these two are both named "
    "strandline/<flow>/<sink>/<topic>."
)
_FIXES: Final[dict[str, str]] = {
    **dict.fromkeys(_REFUSED, _ACCESS),
    "INVALID_TRANSACTION_TIMEOUT": "Give a transaction_timeout= of no more than the broker's transaction.max.timeout.ms.",
    "UNKNOWN_TOPIC_OR_PART": "Make the topic again, or give create=; a topic that was deleted took its marker along.",
    "_UNKNOWN_TOPIC": "Make the topic again, or give create=; a topic that was deleted took its marker along.",
    "INVALID_RECORD": "A compacted topic takes messages with a key only: give key=, or write to another topic.",
    "OFFSET_METADATA_TOO_LARGE": "The marker needs some 400 bytes: raise the broker's offset.metadata.max.bytes.",
    "MSG_SIZE_TOO_LARGE": "Raise the topic's max.message.bytes, or send smaller rows.",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "Transactions need the message format of Kafka 0.11 or later.",
    "UNSUPPORTED_VERSION": "Use a broker of Kafka 2.5 or later.",
}


class Fenced(Exception):
    """A newer producer has the transactional id; or, if the age is beyond the limit, the broker ended the transaction."""

    def __init__(self, said: str, *, age: float = 0.0, limit: float = math.inf) -> None:
        super().__init__(said)
        self.age, self.limit = age, limit


class Unsettled(Exception):
    """What came of a transaction is not known, or nothing: only the marker tells."""


def made(kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any], cluster: Cluster) -> Any:
    """A client of Kafka; SinkError if it does not take its settings."""
    from confluent_kafka import KafkaException

    try:
        return kind(settings)
    except KafkaException as error:
        raise SinkError(
            f"The client of Kafka does not take the options given: {cluster.said(error.args[0].str())}.",
            fix="Mend options=; their names and values are librdkafka's.",
        ) from None


def name_of_code(error: KafkaException) -> str:
    """The code of an error, as librdkafka calls it."""
    return str(error.args[0].name())


def is_fenced(error: KafkaException) -> bool:
    """Whether an error says that another producer took over."""
    return name_of_code(error) in _FENCED


def requires_abort(error: KafkaException) -> bool:
    """Whether a transaction can only be aborted."""
    return bool(error.args[0].txn_requires_abort())


def is_retriable(error: KafkaException) -> bool:
    """Whether the same call may be made again."""
    return bool(error.args[0].retriable())


def sorted_out(error: KafkaException, doing: str, said: Callable[[Any], str]) -> Exception:
    """The error to raise: Fenced, a SinkError for what trying again will not mend, else Unsettled."""
    if is_fenced(error):
        return Fenced(said(error))
    fix = _FIXES.get(name_of_code(error))
    if fix is not None:
        return SinkError(f"{doing}: {said(error.args[0].str())}.", fix=fix)
    return Unsettled(said(error.args[0].str()))

"""Clients of Kafka: their settings, with secrets read where the client is made, and their errors without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from strandline.clients.secrets import hide, reveal, revealed
from strandline.errors import DescriptionError, RunError, told
from strandline.model.secrets import Secret, checked_options

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

OURS: Final = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset"}
    | {"isolation.level", "transactional.id", "enable.idempotence", "enable.partition.eof"}
)
"""Settings on which the promises rest: Strandline's own, and no user's."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which brokers, and how they are spoken to. It travels in plans, so its secrets are named by where they are.

    >>> Cluster("broker:9092", {"sasl.username": "ann", "sasl.password": Secret.env("PASSWORD")})
    Cluster(servers='broker:9092', options=(('sasl.password', Secret.env('PASSWORD')), ('sasl.username', 'ann')))
    """

    servers: str
    options: tuple[tuple[str, str | Secret], ...] = field(default=())

    def __init__(self, servers: str, options: Mapping[str, object] | None = None) -> None:
        if not isinstance(servers, str) or not servers.strip():
            raise DescriptionError(f"{told(servers)} names no brokers.", fix="Write Kafka('host:9092,other:9092').")
        chosen = checked_options(options or {}, option="options")
        for name, _ in chosen:
            if name in OURS:
                raise DescriptionError(
                    f"The setting {name!r} is not for options: what Strandline promises rests on it.",
                    fix="Leave it out; servers, start= and the sink's own options say the rest.",
                )
        object.__setattr__(self, "servers", servers.strip())
        object.__setattr__(self, "options", chosen)

    def shares_brokers(self, servers: str) -> bool:
        """Whether one of these servers is named here, too: then it is one cluster."""
        return not {each.strip() for each in servers.split(",")}.isdisjoint(
            each.strip() for each in self.servers.split(",")
        )

    def settings(self, **ours: Any) -> dict[str, Any]:
        """The settings of a client, secrets included: for the client alone. `ours` with underscores in place of dots."""
        chosen = {name.replace("_", "."): value for name, value in ours.items()}
        quiet = {"log_level": 0}  # librdkafka writes to stderr by itself; what matters comes as an error
        return {**quiet, **revealed(self.options), "bootstrap.servers": self.servers, **chosen}

    def said(self, error: BaseException | str) -> str:
        """What a client said, without secrets."""
        secrets = []
        for _, value in self.options:
            with suppress(RunError):  # one that is gone cannot stand there
                secrets += [reveal(value)] if isinstance(value, Secret) else []
        return hide(str(error), secrets)


def require_confluent() -> None:
    """Say how to get the client, where it is not installed."""
    try:
        import confluent_kafka  # noqa: F401 - asked for, not used
    except ImportError:
        raise RunError(
            "The client of Kafka is not installed.", fix="Install it: pip install 'strandline[kafka]'."
        ) from None


def is_fatal(error: KafkaException) -> bool:
    """Whether a client can do nothing more after an error."""
    return bool(error.args and error.args[0].fatal())

"""What a server of Redis is asked before the start: whether it can be used, and which of its settings weaken the promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from strandline.errors import SinkError
from strandline.sinks.contract import Target

if TYPE_CHECKING:
    import redis


def require_usable(client: redis.Redis, target: Target) -> None:
    """SinkError for a server of a cluster, and for one that only repeats another."""
    from redis.exceptions import NoPermissionError

    try:
        about = {**client.info("server"), **client.info("replication")}
    except NoPermissionError:
        return  # then what it does not do it says when it is asked to
    if about.get("redis_mode") == "cluster":
        raise SinkError(
            f"{target} writes to a Redis Cluster, which is not supported: a batch and its marker are one script, and a script "
            "reaches one node.".replace("the", "The", 1),
            fix="Use a Redis that is no cluster, of its own for these entries, say.",
        )
    if about.get("role") not in ("master", None):
        raise SinkError(
            f"{target} writes to a replica, which only reads.".replace("the", "The", 1),
            fix="Give the url of the server that it follows.",
        )


def weaknesses(client: redis.Redis, *, expiring: bool) -> list[str]:
    """A sentence for each setting that lets Redis lose what it acknowledged."""
    import redis

    try:
        settings: dict[str, Any] = {
            str(name): value
            for asked in ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")
            for name, value in client.config_get(asked).items()
        }
        replicas = client.info("replication").get("connected_slaves")
    except redis.ResponseError:
        return ["Redis does not tell its settings: whether it keeps what it acknowledged, nobody knows here."]
    return [*_kept(settings), *_evicted(settings, expiring=expiring), *_repeated(replicas)]


def _kept(settings: dict[str, Any]) -> Iterator[str]:
    if settings.get("appendonly") == "yes":
        if settings.get("appendfsync") != "always":
            yield (
                f"Redis has appendfsync={settings.get('appendfsync')}: if its machine fails, the last second of entries may be lost, "
                "which the next tick notices. appendfsync=always loses none."
            )
    elif settings.get("save"):
        yield (
            "Redis has appendonly=no: if it ends without being asked to, entries since its last snapshot are lost, which the "
            "next tick notices. appendonly=yes keeps them."
        )
    else:
        yield (
            "Redis has appendonly=no and no snapshots: if it ends, all entries are lost, which the next tick notices. "
            "appendonly=yes keeps them."
        )


def _evicted(settings: dict[str, Any], *, expiring: bool) -> Iterator[str]:
    policy = str(settings.get("maxmemory-policy", "noeviction"))
    if str(settings.get("maxmemory", "0")) == "0" or policy == "noeviction":
        return
    if policy.startswith("allkeys"):
        yield f"Redis has maxmemory-policy={policy}: when its memory is full it drops entries, and the marker, as it likes."
    elif expiring:
        yield f"Redis has maxmemory-policy={policy}: when its memory is full it drops entries before their ttl= is over."


def _repeated(replicas: int | None) -> Iterator[str]:
    if replicas:
        yield "Redis has replicas, which follow it later: if one takes its place, the last entries may be lost, which the next tick notices."

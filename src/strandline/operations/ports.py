"""Ports of this machine: one that is free, whether one is taken, and whether a broker answers there."""

from __future__ import annotations

import random
import socket
import struct
from typing import Final

from strandline.errors import RunError

HOST: Final = "127.0.0.1"
# Below those that systems give to connections going out: one of these would be taken now and then before it is used.
_FREE: Final = range(20_000, 32_000)
_METADATA: Final = 3  # the request that says which brokers there are


def free_port() -> int:
    """A port that nobody listens on."""
    chance = random.SystemRandom()  # a seeded one would give two test workers the same port
    for _ in range(1_000):
        port = chance.choice(_FREE)
        if not taken(port):
            return port
    raise RunError(f"No port from {_FREE.start} to {_FREE.stop} is free.", fix="Name one with port=.")


def taken(port: int) -> bool:
    """Whether somebody listens there, or it may not be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that ended just now do not count
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return True
    return False


def answers(port: int, *, within: float = 1.0) -> bool:
    """Whether a broker of Kafka answers there, and counts itself in; one that is paused does not.

    Asked in Kafka's own protocol, for which no client needs to be installed.
    """
    # The request (version 1) names no client and asks for no topic; the answer starts with the number of brokers.
    request = struct.pack(">hhihi", _METADATA, 1, 1, -1, 0)
    try:
        with socket.create_connection((HOST, port), timeout=within) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 12:
                more = connection.recv(4096)
                if not more:
                    return False
                answer += more
    except OSError:
        return False
    _, correlation, brokers = struct.unpack(">iii", answer[:12])
    return bool(correlation == 1 and brokers > 0)

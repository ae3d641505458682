"""What writes the events of the flow: steadily, until something is amiss."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from confluent_kafka import Producer

PARTITIONS: Final = 3
RATE: Final = 300  # events per second, all partitions together
EVERY: Final = 0.1  # seconds
USERS, DEVICES = 200, 50
DISORDER: Final = 4.0  # seconds


@dataclass(slots=True)
class Amiss:
    """What is wrong with the events: shares of those of one partition, or of all."""

    stalled: frozenset[int] = frozenset()
    old: dict[int, float] = field(default_factory=dict)  # partition: share that is ten minutes old
    poison: dict[int, float] = field(default_factory=dict)
    hot: float = 0.0
    new_users: float = 0.0
    new_devices: float = 0.0


class Stream:
    """A thread that writes. `amiss` may be changed while it does."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic, self.amiss = topic, Amiss()
        self._producer: Any = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 2})
        self._over = threading.Event()
        self._chance = random.Random(1)
        self._fresh = 0

    def _new(self, kind: str) -> str:
        self._fresh += 1
        return f"new {kind} {self._fresh}"

    def _event(self, partition: int) -> bytes:
        chance, amiss = self._chance, self.amiss
        if chance.random() < amiss.poison.get(partition, 0):
            return b'{"user": '
        at = datetime.now(timezone.utc) - timedelta(seconds=chance.random() * DISORDER)
        if chance.random() < amiss.old.get(partition, 0):
            at -= timedelta(minutes=10)
        user = f"user {chance.randrange(USERS)}"
        if chance.random() < amiss.hot:
            user = "hot"
        elif chance.random() < amiss.new_users:
            user = self._new("user")
        device = self._new("device") if chance.random() < amiss.new_devices else f"device {chance.randrange(DEVICES)}"
        return json.dumps({"user": user, "device": device, "at": at.isoformat()}).encode()

    def _write(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += EVERY
            for number in range(int(RATE * EVERY)):
                partition = number % PARTITIONS
                if partition not in self.amiss.stalled:
                    self._producer.produce(self.topic, self._event(partition), partition=partition)
            self._producer.poll(0)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Write until the end of the block."""
        thread = threading.Thread(target=self._write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._producer.flush(10)

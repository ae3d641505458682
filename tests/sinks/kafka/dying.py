"""A child process that publishes ticks and meets its end, or is stopped, at a named point of one of them.

    python -m tests.sinks.kafka.dying <servers> <topic> <point> <tick> <last tick> <kill|stop|none>

It prints a line for each tick, and the error that ended it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from strandline.clients.kafka import Cluster
from strandline.errors import StrandlineError
from strandline.sinks.contract import Delivery
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.kafka.markers import Progress
from strandline.sinks.kafka.messages import Messages
from strandline.sinks.kafka.publisher import KafkaPublisher
from strandline.sinks.kafka.transactions import Transactions
from tests.sinks.delivering import TARGET, delivery

POINTS = ("begun", "marked", "sending", "sent", "committed")
ROWS = 60
CHUNK = 25  # three transactions for each tick
KEYS = 7
TIMEOUT = "10s"


def sink(servers: str, topic: str) -> KafkaSink:
    return KafkaSink(Cluster(servers), topic, key="k", chunk_rows=CHUNK, transaction_timeout=TIMEOUT, wait="40s")


def tick(number: int) -> Delivery:
    """The rows of a tick: ids that grow, over a few keys."""
    first = number * ROWS
    rows = [(f"k{each % KEYS}", each) for each in range(first, first + ROWS)]
    return replace(delivery(TARGET, number, *rows), after=number - 1 if number > 1 else None)


def publish(publisher: KafkaPublisher, first: int, last: int) -> None:
    for number in range(first, last + 1):
        publisher.publish(tick(number))


def child(servers: str, topic: str, point: str, number: int, last: int, how: str) -> subprocess.Popen[str]:
    """A process that publishes the ticks 1 to `last`, or what the topic lacks of them."""
    root = Path(__file__).parents[3]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", "tests.sinks.kafka.dying", servers, topic, point, str(number), str(last), how]
    return subprocess.Popen(command, cwd=root, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Ending(Transactions):
    """A producer that does something at a point of the n-th transaction of this process."""

    left = 0
    point = ""
    act: Callable[[], None] = staticmethod(lambda: None)

    def begin(self) -> None:
        Ending.left -= 1
        super().begin()
        self.reach("begun")

    def mark(self, progress: Progress) -> None:
        super().mark(progress)
        if Ending.left == 0 and self.point == "marked" and self.marking is not None:
            self.marking.result()
            self.reach("marked")

    def send(self, messages: Messages) -> None:
        if Ending.left == 0 and self.point == "sending":
            half = len(messages) // 2
            super().send(Messages(messages.keys[:half], messages.values[:half], messages.headers[:half]))
            self.producer.flush(10)
            self.reach("sending")
        super().send(messages)

    def commit(self) -> None:
        if Ending.left == 0 and self.point == "sent":
            self.producer.flush(10)
            if self.marking is not None:
                self.marking.result()
            self.reach("sent")
        super().commit()
        self.reach("committed")

    def reach(self, point: str) -> None:
        if Ending.left == 0 and self.point == point:
            Ending.act()


def main(servers: str, topic: str, point: str, number: str, last: str, how: str) -> None:
    end = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(how)
    if end is not None:
        import strandline.sinks.kafka.description as module

        Ending.point, Ending.left = point, int(number)
        Ending.act = staticmethod(lambda: os.kill(os.getpid(), end))
        module.Transactions = Ending  # type: ignore[misc]
    try:
        publisher = sink(servers, topic).prepare(TARGET)
        known = publisher.marker
        publish(publisher, 1 if known is None else known.tick, int(last))
    except StrandlineError as error:
        print(type(error).__name__, error, flush=True)
        return
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

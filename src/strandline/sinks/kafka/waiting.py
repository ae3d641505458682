"""Waits that end. librdkafka bounds its calls itself, but for some that were under way when a broker died.

`send_offsets_to_transaction`, called in the moment in which a broker is killed, may never return, long after the broker is
back (librdkafka #5456 and #5511; seen with 2.16). Such a call is left behind with its producer, which the next one fences.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from strandline.sinks.kafka.errors import Unsettled

T = TypeVar("T")
GRACE: Final = 5.0
"""How many seconds a call may take beyond the time that it was told."""


class Call(Generic[T]):
    """A call that is told to take so many seconds, made beside the caller."""

    def __init__(self, seconds: float, call: Callable[[float], T]) -> None:
        self.deadline = time.monotonic() + seconds + GRACE
        self.answers: list[T] = []
        self.errors: list[BaseException] = []
        self.thread = threading.Thread(target=self._work, args=(seconds, call), name="a call to Kafka", daemon=True)
        self.thread.start()

    def result(self) -> T:
        """What it answers; Unsettled if it has not when its time is over, and a little longer."""
        self.thread.join(max(self.deadline - time.monotonic(), 0))
        if self.errors:
            raise self.errors[0]
        if not self.answers:
            raise Unsettled("the client does not answer")
        return self.answers[0]

    def _work(self, seconds: float, call: Callable[[float], T]) -> None:
        try:
            self.answers.append(call(seconds))
        except BaseException as error:  # raised again where it is waited for
            self.errors.append(error)


def within(seconds: float, call: Callable[[float], T]) -> T:
    """What a call answers that is told to take so many seconds."""
    return Call(seconds, call).result()


def let_go(holder: Any, name: str, *, wait: float) -> None:
    """Give up a client, which may take its time, beside the caller."""
    client = [holder.__dict__.pop(name, None)]
    if client == [None]:
        return

    def work() -> None:
        purge = getattr(client[0], "purge", None)
        if purge is not None:
            purge(blocking=False)
        del purge
        client.clear()  # the last to hold it: its threads are waited for here

    thread = threading.Thread(target=work, name="the end of a client of Kafka", daemon=True)
    thread.start()
    thread.join(wait)


class Repeated:
    """A call made every so many seconds, in a thread of its own, until it is closed."""

    def __init__(self, every: float, call: Callable[[], None], *, name: str) -> None:
        self.every, self.call = every, call
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Make no further call."""
        self.ended.set()

    def _work(self) -> None:
        while not self.ended.wait(self.every):
            self.call()

"""Waits that end. librdkafka bounds its calls itself, but for some that were under way when a broker died.

`send_offsets_to_transaction`, called in the moment in which a broker is killed, may never return, long after the broker is
back (librdkafka #5456 and #5511; seen with 2.16). Such a call is left behind with its producer, which the next one fences.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from strandline.sinks.kafka_errors import Unsettled

T = TypeVar("T")
GRACE: Final = 5.0
"""How many seconds a call may take beyond the time that it was told."""


def within(seconds: float, call: Callable[[float], T]) -> T:
    """What a call answers that is told to take so many seconds; Unsettled if it has not by then, and a little longer."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call(seconds))
        except BaseException as error:  # raised again where it is waited for
            errors.append(error)

    thread = threading.Thread(target=work, name="a call to Kafka", daemon=True)
    thread.start()
    thread.join(seconds + GRACE)
    if errors:
        raise errors[0]
    if not answers:
        raise Unsettled(f"the client did not answer within {seconds + GRACE:.0f} s")
    return answers[0]


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

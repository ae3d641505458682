"""A server that acts and drops its answers, and senders that are killed: every charge is made once."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from strandline.sinks.http.publisher import HttpPublisher
from tests.sinks.delivering import TARGET
from tests.sinks.http_calls.paying import Payments, serving
from tests.sinks.http_calls.publishing import NOON, ROWS, TICKS, child, sink, tick

ALL = sorted((f"user-{at}", 100 * number + at) for number in range(1, TICKS + 1) for at in range(ROWS))


def published(url: str, first: int = 1) -> None:
    publisher = HttpPublisher(sink(url), TARGET, now=lambda: NOON)
    for number in range(first, TICKS + 1):
        publisher.publish(tick(number))
    publisher.close()


@pytest.mark.parametrize("drop_every", [0, 10, 3])
def test_a_server_that_drops_its_answers_charges_once(drop_every: int) -> None:
    payments = Payments()
    payments.drop_every = drop_every
    with serving(payments) as url:
        published(url)
    assert payments.charged() == ALL
    assert payments.requests > len(ALL) if drop_every else payments.requests == len(ALL)


def test_a_server_that_does_not_remember_charges_twice() -> None:
    """The test above can fail: what makes it pass is the server's memory of keys."""
    payments = Payments()
    payments.drop_every, payments.remembers = 10, False
    with serving(payments) as url:
        published(url)
    assert len(payments.ledger) > len(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["received", "acted", "answered"])
@pytest.mark.parametrize("places", [(1, 2), (ROWS, ROWS + 1), (5, 20, 9, ROWS * TICKS)])
def test_a_sender_that_is_killed_again_and_again_charges_once(point: str, places: tuple[int, ...]) -> None:
    payments = Payments()
    payments.drop_every = 10
    with serving(payments) as url:
        killed = [_killed(payments, url, point, payments.requests + place) for place in places]
        assert sum(killed) >= 2
        survivor = child(url, _head(payments))
        assert survivor.wait(60) == 0
    assert payments.charged() == ALL


def _head(payments: Payments) -> int:
    """The tick that the state of a flow would publish first: the last that may not be published whole."""
    return 1 + max((len(payments.ledger) - 1) // ROWS, 0) if payments.ledger else 1


def _killed(payments: Payments, url: str, point: str, number: int) -> bool:
    """Run a sender that dies by kill -9 when the server is at this point of this request, or ends before: whether it died."""
    running: list[subprocess.Popen[bytes]] = []

    def kill(reached: str, at: int) -> None:
        if (reached, at) == (point, number):
            os.kill(running[0].pid, signal.SIGKILL)

    payments.at = kill
    running.append(child(url, _head(payments)))
    ended = running[0].wait(60)
    payments.at = lambda point, number: None
    assert ended in (-signal.SIGKILL, 0)
    return ended != 0

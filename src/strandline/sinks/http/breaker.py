"""A circuit breaker: nobody calls a server that is down, but for one who tries, now and then."""

from __future__ import annotations

import threading
from typing import Final

WATCHED_EVERY: Final = 0.05
"""How often those who wait look whether the one who tries came back, in seconds."""


class Breaker:
    """Ask before each call, and tell what came of it. Time is an argument, in seconds.

    Closed, everybody may call. After `after` failures in a row it is open: nobody may, for `pause`. Then it is half open:
    one may, and what comes of that closes or opens it.

    Law: while it is not closed, at most one call is under way that was let through since it opened.

    >>> breaker = Breaker(after=2, pause=10.0)
    >>> breaker.failed(0.0), breaker.failed(1.0)
    (None, None)
    >>> breaker.ask(2.0), breaker.ask(11.0), breaker.ask(11.0)
    (9.0, 0.0, 0.05)
    >>> breaker.succeeded(); breaker.ask(11.5)
    0.0
    """

    def __init__(self, *, after: int, pause: float) -> None:
        self.after, self.pause = after, pause
        self.lock = threading.Lock()
        self.failures = 0
        self.open_until: float | None = None
        self.trying = False

    def ask(self, now: float) -> float:
        """0 for a call that may be made now; else how long to wait before asking again."""
        with self.lock:
            if self.open_until is None:
                return 0.0
            if now < self.open_until:
                return self.open_until - now
            if self.trying:
                return WATCHED_EVERY
            self.trying = True
            return 0.0

    def succeeded(self) -> None:
        """The server answered, whatever it said: it is there."""
        with self.lock:
            self.failures, self.open_until, self.trying = 0, None, False

    def failed(self, now: float) -> None:
        """The server did not answer, or said that it cannot."""
        with self.lock:
            self.failures += 1
            if self.trying or self.failures >= self.after:
                self.open_until, self.trying = now + self.pause, False

    def given_up(self) -> None:
        """Whoever was let through did not call after all: another may try."""
        with self.lock:
            self.trying = False

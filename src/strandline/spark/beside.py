"""Work beside the making of ticks, one piece at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue


class Beside:
    """Does in a thread of its own what it is given, when what it was given before is done.

    Not an executor of Python's: that one is waited for when the process ends, and a sink that does not answer would keep
    the process from being interrupted. One thread for all work: Py4J has a thread in Java for each in Python.

    >>> beside = Beside("sums")
    >>> beside.submit(sum, [1, 2])
    >>> beside.result()
    >>> beside.close()
    """

    def __init__(self, name: str) -> None:
        self._given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._last: Future[None] | None = None

    def submit(self, work: Callable[..., object], *given: object) -> None:
        """Begin a piece of work; the one before must be done, and what it raised is raised here."""
        self.result()
        if self._last is None:
            self._thread.start()
        self._last = Future()
        self._given.put(partial(_do, self._last, work, given))

    def result(self) -> None:
        """Wait for the last piece of work; raise what it raised."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Wait for the last piece of work, whatever came of it, and let the thread go."""
        if self._last is not None:
            wait([self._last])
            self._given.put(None)

    def _work(self) -> None:
        while (work := self._given.get()) is not None:
            work()


def _do(done: Future[None], work: Callable[..., object], given: tuple[object, ...]) -> None:
    try:
        work(*given)
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(None)

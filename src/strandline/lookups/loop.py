"""An event loop in a thread of its own: whoever has many questions under way need not know of it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

Answer = TypeVar("Answer")

_PATIENCE: Final = 5.0
"""Seconds that those who are closed are waited for."""


class Loop:
    """Runs coroutines while the caller waits; a notebook, which has a loop itself, may be the caller."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="strandline-lookup", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What a coroutine comes to."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whoever was interrupted does not wait for answers
            raise

    def end(self, last: Coroutine[Any, Any, object] | None = None) -> None:
        """Run a last coroutine, and stop; neither is waited for long."""
        asyncio.run_coroutine_threadsafe(self._end(last), self.loop)
        if threading.current_thread() is not self.thread:  # whoever forgets an asker may be anybody
            self.thread.join(2 * _PATIENCE)

    async def _end(self, last: Coroutine[Any, Any, object] | None) -> None:
        with suppress(Exception):
            if last is not None:
                await asyncio.wait_for(last, _PATIENCE)
        self.loop.stop()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


class Threads:
    """Calls of ordinary functions, so many at a time, in threads that nobody waits for when the process ends.

    A call that hangs keeps its thread: those that find none wait, and come to their time-out, in place of more and more
    threads that hang too. All but the calls themselves is done by the loop.
    """

    def __init__(self, most: int) -> None:
        self.places = asyncio.Semaphore(most)
        self.work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.idle = self.started = 0

    async def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """What a function returns, or raises."""
        await self.places.acquire()
        loop = asyncio.get_running_loop()
        told: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            self.idle += 1
            self.places.release()
            if not told.done():
                told.set_result((result, error))

        def work() -> None:
            try:
                found: tuple[Any, BaseException | None] = function(*given), None
            except BaseException as error:
                found = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(settle, *found)

        self._begin(work)
        result, error = await told
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """Let the threads end, each when its call has."""
        for _ in range(self.started):
            self.work.put(None)

    def _begin(self, work: Callable[[], None]) -> None:
        if self.idle:
            self.idle -= 1
        else:
            self.started += 1
            threading.Thread(target=_work, args=(self.work,), name="strandline-lookup-call", daemon=True).start()
        self.work.put(work)


def _work(waiting: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := waiting.get()) is not None:
        work()

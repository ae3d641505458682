"""Ask for many keys at once: so many calls at a time, each for so long, again where it failed."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from strandline.errors import DataError, StrandlineError, raised_by
from strandline.lookups.cache import UNKNOWN, Answers
from strandline.lookups.loop import Loop, Threads
from strandline.model.lookups import BatchLookup, Failed, Key, Lookup, batch_of, called, written_in
from strandline.model.nodes import LookupNode
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.http.keys import backoff

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
_SHOWN: Final = 500


def asker_of(node: LookupNode, key: Schema) -> Asking:
    """A lookup, put to work in this process."""
    return Asking(node, key)


class Asking:
    """A lookup at work. Whoever is asked is opened with the first question, and closed when this is forgotten."""

    def __init__(
        self, node: LookupNode, key: Schema, *, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self.node, self.key, self.pause = node, key, pause
        self.answers = Answers(node.cache)
        self.opened: tuple[Loop, Call] | None = None

    def ask(self, keys: Sequence[Key], now: Instant) -> list[Any]:
        """What is known, and for all else what is answered; Failed where there is no answer."""
        found = [self.answers.get(key, now) for key in keys]
        wanted = [at for at, answer in enumerate(found) if answer is UNKNOWN]
        if wanted:
            loop, call = self._open()
            for at, answer in loop.run(self._all(call, wanted, keys)):
                found[at] = answer
                if not isinstance(answer, Failed):
                    self.answers.put(keys[at], answer, now)
        return [None if answer is UNKNOWN else answer for answer in found]

    def _open(self) -> tuple[Loop, Call]:
        if self.opened is None:
            loop = Loop()
            try:
                call = loop.run(_opened(self.node, self.key))
            except BaseException:
                loop.end()
                raise
            self.opened = loop, call
            weakref.finalize(self, _end, loop, call)
        return self.opened

    async def _all(self, call: Call, wanted: Sequence[int], keys: Sequence[Key]) -> list[tuple[int, Any]]:
        """The answers, each with its place. A lookup that must not fail asks nothing more once it has."""
        size = call.batch
        batches = iter([wanted[at : at + size] for at in range(0, len(wanted), size)])
        found: list[tuple[int, Any]] = []
        fails = self.node.on_error == "fail"

        async def work(left: Iterator[Sequence[int]]) -> None:
            for places in left:
                answers = await self._answers(call, [keys[at] for at in places])
                found.extend(zip(places, answers, strict=True))
                if fails and any(isinstance(answer, Failed) for answer in answers):
                    for _ in left:
                        pass

        await asyncio.gather(*(work(batches) for _ in range(min(self.node.concurrency, -(-len(wanted) // size)))))
        return found

    async def _answers(self, call: Call, keys: Sequence[Key]) -> Sequence[Any]:
        """What is answered for a few keys, in as many attempts as it may take."""
        failed = Failed("", "")
        for attempt in range(self.node.retries + 1):
            if attempt:
                await self.pause(backoff(repr(keys[0]), attempt - 1, FIRST_PAUSE, LONGEST_PAUSE))
            try:
                answers = await self._attempt(call, keys)
            except DataError as error:  # to ask again would change nothing
                return [call.failed(error)] * len(keys)
            except _Slow:
                failed = call.slow(self.node.timeout.text)
            except Exception as error:
                failed = call.failed(error)
            else:
                return [call.failed(answer) if isinstance(answer, Exception) else answer for answer in answers]
        return [failed] * len(keys)

    async def _attempt(self, call: Call, keys: Sequence[Key]) -> Sequence[Any]:
        asked = asyncio.ensure_future(call(keys))
        done, _ = await asyncio.wait({asked}, timeout=self.node.timeout / 1_000_000)
        if not done:
            asked.add_done_callback(_unheard)
            asked.cancel()
            raise _Slow
        if asked.cancelled():
            raise RuntimeError("the question was cancelled")
        return asked.result()


class _Slow(Exception):
    """There was no answer in time."""


def _unheard(asked: asyncio.Future[Any]) -> None:
    """Take an answer that came too late, or asyncio would complain that nobody did."""
    if not asked.cancelled():
        asked.exception()


class Call:
    """Whoever is asked, opened: a few keys in, as many answers out."""

    def __init__(self, node: LookupNode, opened: Any, threads: Threads) -> None:
        self.threads, self.name, self.place = threads, called(node.lookup), written_in(node.lookup)
        self.lookup: Any = opened if isinstance(node.lookup, Lookup | BatchLookup) else None
        self.function: Callable[..., Any] = opened if self.lookup is None else opened.ask
        self.one_by_one = not isinstance(node.lookup, BatchLookup)
        self.batch = 1 if self.one_by_one else batch_of(opened)

    async def __call__(self, keys: Sequence[Key]) -> Sequence[Any]:
        """Ask once."""
        try:
            if self.one_by_one:
                return [await self._asked(*keys[0])]
            answers = await self._asked(keys)
        except (SystemExit, KeyboardInterrupt) as error:  # they would end the loop, and with it everybody's questions
            raise RuntimeError(f"{self.name} tried to end the process: {error!r}") from error
        if not isinstance(answers, Sequence) or len(answers) != len(keys):
            raise DataError(
                f"{self.name} was asked for {len(keys)} keys, and did not answer with a list of as many.",
                fix="Return an answer for each key, in their order; None where there is none.",
            )
        return answers

    async def _asked(self, *given: Any) -> Any:
        if _is_async(self.function):
            return await self.function(*given)
        answer = await self.threads.call(self.function, *given)
        return await answer if inspect.isawaitable(answer) else answer

    def failed(self, error: Exception) -> Failed:
        """What an error says: in one line for a row, and with its place for whoever mends it."""
        if isinstance(error, StrandlineError):
            return Failed(error.what, error.what)
        said = " ".join(str(error).split())[:_SHOWN]
        reason = f"{type(error).__name__}{f': {said}' if said else ''}"
        if error.__traceback__ is None:  # it was given, and not raised
            return Failed(reason, f"{self.name} answered {reason}")
        return Failed(reason, raised_by(self.function, error))

    def slow(self, timeout: str) -> Failed:
        """That there was no answer in time."""
        return Failed(
            f"TimeoutError: no answer within {timeout}", f"{self.name}{self.place} gave no answer within {timeout}."
        )

    async def close(self) -> None:
        """Let it close what it opened."""
        self.threads.end()
        said = None if self.lookup is None else self.lookup.close()
        if inspect.isawaitable(said):
            await said


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _opened(node: LookupNode, key: Schema) -> Call:
    """Whoever is asked, opened in this process. An error here is of no row: it stops the flow."""
    threads = Threads(node.concurrency)
    if not isinstance(node.lookup, Lookup | BatchLookup):
        return Call(node, node.lookup, threads)
    try:
        opened = node.lookup.opened(key, node.output)
        said = opened.open()
        if inspect.isawaitable(said):
            await said
    except StrandlineError:
        raise
    except Exception as error:
        raise DataError(
            f"In the lookup of stage {node.name!r}, {raised_by(node.lookup.open, error)}",
            fix="Mend it; it is called once in each process, before the first question.",
        ) from error
    return Call(node, opened, threads)


def _end(loop: Loop, call: Call) -> None:
    loop.end(call.close())

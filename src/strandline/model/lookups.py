"""Questions to somebody outside: a service, a database, a model. How one is asked, and what an answer may be.

A lookup is a function of the key, which may be `async`; or, where something must be loaded or opened first, a class:

    class Tier(sl.Lookup):
        def open(self):                              # once in each worker
            self.client = httpx.AsyncClient(base_url="https://crm.example")

        async def ask(self, user):
            answer = await self.client.get(f"/users/{user}")
            return answer.json()["tier"]             # the one column; or {"tier": ..., "since": ...}; or None

        async def close(self):
            await self.client.aclose()

Nothing here asks anybody: `strandline.lookups` does, outside of the inner rings.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias

from strandline.errors import DescriptionError, name_of, told
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

OnError = Literal["reject", "null", "fail"]
Key: TypeAlias = tuple[Any, ...]
"""The values of the columns `on`, in their order; none of them is null."""


class _Opened:
    """What all lookups have in common: it travels closed, and a copy is opened in each process that asks."""

    def opened(self, key: Schema, output: Schema) -> Any:
        """The one that is asked, with its own `open`, `ask` and `close`: a copy, which `open` may put a client on.

        Whoever must know the columns of the key, or of an answer, gives something else here.
        """
        return copy.copy(self)

    def check(self, key: Schema, output: Schema) -> None:
        """Refuse what it cannot be asked for, or cannot answer, with a DescriptionError: before the start, with these columns."""

    def open(self) -> Any:
        """Called once in each process before the first question; may be `async`."""

    def close(self) -> Any:
        """Called when nobody asks any more; may be `async`."""


class Lookup(_Opened, ABC):
    """Somebody who is asked for one key at a time, many of them at once.

    It travels to the workers, and is opened there: what `open` sets on `self` stays in its process.
    """

    @abstractmethod
    def ask(self, *key: Any) -> Any:
        """The answer for a key: a mapping of the output's columns, the value of the only one, or None for no answer.

        May be `async`; where it is not, it is called in threads.
        """


class BatchLookup(_Opened, ABC):
    """Somebody who is asked for several keys in one call, up to `batch` of them."""

    batch: int = 500

    @abstractmethod
    def ask(self, keys: Sequence[Key]) -> Any:
        """The answers, in the order of the keys; an exception in place of one is the error of that key. May be `async`."""


Asked: TypeAlias = Lookup | BatchLookup | Callable[..., Any]
"""What a stream is looked up with."""


@dataclass(frozen=True, slots=True, init=False)
class Cache:
    """Answers that are used again for as long as `ttl` says, by the processing time of ticks; `size` keys at most.

    Each worker has its own. That there was no answer is remembered too; errors are not.

    >>> Cache("10m").size
    100000
    """

    ttl: Span
    size: int

    def __init__(self, ttl: str | timedelta | Span, size: int = 100_000) -> None:
        span = Span.of(ttl)
        if span <= 0:
            raise DescriptionError(f"Cache({span.text!r}) remembers nothing.", fix="Give such as Cache('10m').")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DescriptionError(f"size={told(size)} is no number of keys.", fix="Give such as size=100_000.")
        object.__setattr__(self, "ttl", span)
        object.__setattr__(self, "size", size)


@dataclass(frozen=True, slots=True)
class Failed:
    """A question that has no answer: `reason` is for the row that is rejected, `what` for whoever must mend it."""

    reason: str
    what: str


class Asker(Protocol):
    """A lookup at work, in one process: made once, and opened when it is first asked."""

    def ask(self, keys: Sequence[Key], now: Instant) -> Sequence[Any]:
        """For each key, none of which stands there twice, what was answered, or `Failed`. `now` is the tick's time."""


def batch_of(lookup: BatchLookup) -> int:
    """How many keys are asked for in one call."""
    if isinstance(lookup.batch, bool) or not isinstance(lookup.batch, int) or lookup.batch < 1:
        raise DescriptionError(
            f"batch={told(lookup.batch)} of {type(lookup).__name__} is no number of keys.",
            fix="Give a whole number from 1: batch = 500.",
        )
    return lookup.batch


def called(lookup: Asked) -> str:
    """The name by which a user knows a lookup.

    >>> called(len)
    'len'
    """
    return type(lookup).__name__ if isinstance(lookup, Lookup | BatchLookup) else name_of(lookup)


def written_in(lookup: Asked) -> str:
    """Where what a user wrote begins, in brackets; nothing where that is not known, or nothing of theirs."""
    function = lookup.ask if isinstance(lookup, Lookup | BatchLookup) else lookup
    ours = str(getattr(function, "__module__", "")).startswith("strandline.")
    code = None if ours else getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f" ({code.co_filename}, line {code.co_firstlineno})"

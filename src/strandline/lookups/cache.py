"""Answers that are used again, until they are too old or too many."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from strandline.model.lookups import Cache, Key
from strandline.model.time import Instant

UNKNOWN: Final = object()
"""In place of an answer that nobody has given yet: None is one."""


class Answers:
    """The answers of one process. Time is that of ticks, so that a test can say what is too old."""

    def __init__(self, cache: Cache | None) -> None:
        self.cache = cache
        self.known: OrderedDict[Key, tuple[Instant, Any]] = OrderedDict()

    def get(self, key: Key, now: Instant) -> Any:
        """The answer for a key, or UNKNOWN."""
        at, answer = self.known.get(key, (now, UNKNOWN))
        if answer is UNKNOWN or self.cache is None or now - at >= self.cache.ttl:
            return UNKNOWN
        self.known.move_to_end(key)
        return answer

    def put(self, key: Key, answer: Any, now: Instant) -> None:
        """Remember an answer; of too many, the one that nobody has asked for longest is forgotten."""
        if self.cache is None:
            return
        self.known[key] = (now, answer)
        self.known.move_to_end(key)
        if len(self.known) > self.cache.size:
            self.known.popitem(last=False)

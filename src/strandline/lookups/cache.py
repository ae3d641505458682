"""Answers that are used again, until they are too old or too many."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, Final

from strandline.model.lookups import Cache, Key
from strandline.model.time import Instant

UNKNOWN: Final = object()
"""In place of an answer that nobody has given yet: None is one."""


NAN: Final = object()


class Answers:
    """The answers of one process. Time is that of ticks, so that a test can say what is too old."""

    def __init__(self, cache: Cache | None) -> None:
        self.cache = cache
        self.known: OrderedDict[Key, tuple[Instant, Any]] = OrderedDict()

    def get(self, key: Key, now: Instant) -> Any:
        """The answer for a key, or UNKNOWN."""
        key = _told_apart(key)
        at, answer = self.known.get(key, (now, UNKNOWN))
        if answer is UNKNOWN or self.cache is None or now - at >= self.cache.ttl:
            return UNKNOWN
        self.known.move_to_end(key)
        return answer

    def put(self, key: Key, answer: Any, now: Instant) -> None:
        """Remember an answer; of too many, the one that nobody has asked for longest is forgotten."""
        if self.cache is None:
            return
        key = _told_apart(key)
        self.known[key] = (now, answer)
        self.known.move_to_end(key)
        if len(self.known) > self.cache.size:
            self.known.popitem(last=False)


def _told_apart(key: Key) -> Key:
    """A key by which an answer is found again: NaN is not equal to itself, and is one key all the same."""
    return tuple(NAN if isinstance(value, float) and math.isnan(value) else value for value in key)

"""The one clock. Everything inward of the driver gets time as data."""

from __future__ import annotations

import time

from strandline.model.time import Instant, Span


def now() -> Instant:
    """The processing time."""
    return Instant(time.time_ns() // 1_000)


def elapsed() -> Span:
    """Time that only goes forward, for durations; its zero means nothing."""
    return Span(time.monotonic_ns() // 1_000)


def rest(span: Span) -> None:
    """Do nothing for a while."""
    time.sleep(span / 1_000_000)

"""The one clock. Everything inward of the driver gets time as data.

`STRANDLINE_CLOCK` may name a file that holds microseconds, which are added to the time of day: tests let the clock step.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from strandline.model.time import Instant, Span


def now() -> Instant:
    """The processing time."""
    return Instant(time.time_ns() // 1_000 + _stepped())


def _stepped() -> int:
    file = os.environ.get("STRANDLINE_CLOCK")
    return int(Path(file).read_text()) if file else 0


def elapsed() -> Span:
    """Time that only goes forward, for durations; its zero means nothing."""
    return Span(time.monotonic_ns() // 1_000)

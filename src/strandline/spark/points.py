"""The named points of a run and of a tick, at which tests stop or kill the driver.

`STRANDLINE_AT="committed:7=SIGKILL"` sends the driver that signal when it reaches the point in tick 7 (`*`: in any tick);
`=BREAK` ends the run there with an error, so that one process can go through many ends.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from strandline.errors import RunError

POINTS: Final = (
    "resumed",      # a run that goes on has published the head again; said of the head's tick
    "offsets",      # Spark has pinned what the tick reads
    "read",         # rows have become partials
    "ticked",       # the watermarks have moved
    "stepped",      # state and output files are written
    "committed",    # the manifest is created
    "publishing",   # a sink has the tick's rows; others may not have them
    "published",    # every sink has the tick's rows
    "recorded",     # the journal has the tick
    "cleaned",      # what nobody needs any more is removed
)  # fmt: skip


def reach(point: str, tick: int) -> None:
    """Say that the driver has come to a point. Without the variable nothing happens."""
    wanted = os.environ.get("STRANDLINE_AT")
    if wanted is None:
        return
    place, _, name = wanted.partition("=")
    at, _, number = place.partition(":")
    if at == point and number in ("*", str(tick)):
        if name == "BREAK":
            raise RunError(f"The run was broken off at {point} of tick {tick}.", fix="Unset STRANDLINE_AT.")
        # To this thread: a signal to the process may reach another one first, and this one goes on for a while.
        signal.raise_signal(signal.Signals[name or "SIGKILL"])

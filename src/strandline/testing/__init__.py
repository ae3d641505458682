"""Test a flow without a JVM: play it, say what must be shown, write laws about it.

`strandline.testing.strategies` (laws, with Hypothesis) is imported by itself: it needs the extra `testing`.
"""

from strandline.testing.play import play
from strandline.testing.results import Books, Played, PlayedTick
from strandline.testing.steps import Crash, Events, ProcessingTime, Tick, Watermark

__all__ = ["Books", "Crash", "Events", "Played", "PlayedTick", "ProcessingTime", "Tick", "Watermark", "play"]

"""An example of a stage in time: a tiny stream is made up, the oracle plays it, and what came of it is drawn."""

from strandline.model.timeline.drawing import drawn, heading
from strandline.model.timeline.playing import Example, NoExample, example

__all__ = ["Example", "NoExample", "drawn", "example", "heading"]

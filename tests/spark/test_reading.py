"""What a task hears of a source reaches the driver as it was."""

from __future__ import annotations

import json

import numpy as np

import strandline as sl
from strandline.kernel.preaggregate import Books
from strandline.model.partitions import gather
from strandline.model.time import Instant
from strandline.sources.contract import EVERY, Place
from strandline.spark.reading import Heard
from strandline.spark.ticking import move_sources


def test_what_was_heard_survives_the_way_and_says_which_partition_brought_bad_and_old_rows() -> None:
    heard, stats = Heard("orders"), gather(np.array([3, 9]), Instant(10), max_future=None)
    heard.add("eu", stats, Books(rows=3, kept=2, rejected=1))
    heard.add("us", stats, Books(rows=2, kept=2), behind=1)
    heard.add("eu", stats, Books(rows=4, kept=2, rejected=2))
    text, data = heard.to_row()
    found = Heard.from_row(json.loads(text)["heard"])
    assert data == b""
    assert (found.source, found.stats, found.books) == ("orders", heard.stats, Books(rows=9, kept=6, rejected=3))
    assert found.rejected == {"eu": 3}
    assert found.behind == {"us": 1}


def test_what_could_not_be_understood_is_of_no_partition_and_holds_no_watermark() -> None:
    flow = sl.Flow("devices")
    source = sl.Files("in").read(format="json", schema="device string, at timestamp", partition_by="device")
    flow.source("events", source, time="at", watermark=sl.Bounded("0s"))
    heard = Heard("events")
    heard.add("a", gather(np.array([3, 9]), Instant(10), max_future=None), Books(rows=2, kept=2))
    heard.add(EVERY, gather(np.array([], np.int64), Instant(10), max_future=None), Books(rows=1, rejected=1))
    moved = move_sources(
        flow, None, [heard], {"events": {EVERY: Place(position=1, end=1)}},
        now=Instant(10), running=sl.Span(0), run="r", ending=False,
    )["events"]  # fmt: skip
    assert set(moved.partitions) == {"a"}
    assert moved.watermark == Instant(9)

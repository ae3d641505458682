"""What a task hears of a source reaches the driver as it was."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

import strandline as sl
from strandline.kernel.preaggregate import Books
from strandline.model.partitions import SourceState, gather
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


def test_a_partition_that_is_not_read_any_more_holds_no_watermark() -> None:
    flow = sl.Flow("topics")
    source = sl.Kafka("broker:9092").read(pattern=".*", format="json", schema="at timestamp")
    flow.source("events", source, time="at", watermark=sl.Bounded("0s"))

    def moved(before: SourceState, brought: dict[str, int], places: dict[str, Place], now: int) -> SourceState:
        heard = Heard("events")
        for name, at in brought.items():
            heard.add(name, gather(np.array([at]), Instant(now), max_future=None), Books(rows=1, kept=1))
        head = SimpleNamespace(sources={"events": before})
        return move_sources(
            flow, cast("Any", head), [heard], {"events": places}, now=Instant(now), running=sl.Span(now), run="r", ending=False
        )["events"]  # fmt: skip

    one = Place(position=1, end=1)
    both = moved(SourceState(), {"old/0": 3, "new/0": 9}, {"old/0": one, "new/0": one}, 10)
    assert both.watermark == Instant(3)
    left = moved(both, {}, {"new/0": one}, 11)
    assert (set(left.partitions), left.watermark) == ({"new/0"}, Instant(9))
    none = moved(left, {}, {}, 12)
    assert (dict(none.partitions), none.watermark, none.seen) == ({}, Instant(9), Instant(9))

"""Publishing by itself, without Spark: who gets what again after a restore, and how sinks are let go of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import strandline as sl
from strandline.errors import SinkError
from strandline.model.nodes import SinkNode
from strandline.sinks.contract import ALL_ROWS, Delivery, Marker, Receipt, Target
from strandline.spark.outputs import frame_bytes, write_output
from strandline.spark.publishing import Outlet, Publishing, prepare
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifest
from strandline.store.records import PendingTick, SinkRecord
from tests.store.states import first


class Shelf:
    """A publisher that remembers what it was given."""

    def __init__(self, marker: Marker | None = None, *, failing: bool = False) -> None:
        self.marker, self.failing = marker, failing
        self.given: list[int] = []
        self.closed = False

    def publish(self, delivery: Delivery) -> Receipt:
        self.given.append(delivery.tick)
        return Receipt(rows=delivery.rows)

    def close(self) -> None:
        self.closed = True
        if self.failing:
            raise OSError("no answer")


def publishing(storage: LocalStorage, **shelves: Shelf) -> Publishing:
    flow = sl.Flow("f")
    events = flow.source("events", sl.Generator(seed=1, rows=1), time="at")
    for name in shelves:
        events.sink(name, sl.Memory(name), rows="append")
    nodes: dict[str, SinkNode] = {node.name: node for node in flow.nodes if isinstance(node, SinkNode)}
    return Publishing({name: Outlet(nodes[name], shelf, storage, "new") for name, shelf in shelves.items()})


def head(storage: LocalStorage, **journal: Any) -> Manifest:
    """A head with a tick that is perhaps not published yet."""
    output = write_output(storage, "out", 7, frame_bytes(pl.DataFrame({"n": [1]})), 1)
    pending = PendingTick(tick=7, now=0, outputs=(output,), digest="ab")
    return first(8, incarnation="new", sinks={"out": SinkRecord(pending=(pending,))}, journal=journal)


@pytest.mark.parametrize(
    ("marker", "given"),
    [
        (None, [7]),
        (Marker(incarnation="old", tick=6, digest="aa"), [7]),
        (Marker(incarnation="old", tick=7, digest="ab"), []),
        (Marker(incarnation="another", tick=7, digest="ab"), [7]),
        (Marker(incarnation="new", tick=7, digest="ab"), [7]),
        (Marker(incarnation="new", tick=8, digest="ac"), []),
    ],
)
def test_after_a_restore_a_sink_is_not_given_what_its_marker_says_it_had_before(
    tmp_path: Path, marker: Marker | None, given: list[int]
) -> None:
    storage, shelf = LocalStorage(tmp_path), Shelf(marker)
    restored = {"savepoint": "a", "tick": 7, "incarnation": "old"}
    publishing(storage, out=shelf).publish(head(storage, restored=restored), again=True)
    assert shelf.given == given


def test_every_sink_is_closed_although_one_of_them_fails(tmp_path: Path) -> None:
    shelves = {"one": Shelf(failing=True), "two": Shelf()}
    with pytest.raises(OSError, match="no answer"):
        publishing(LocalStorage(tmp_path), **shelves).close()
    assert shelves["two"].closed


@dataclass(frozen=True)
class Place:
    """A sink that is prepared with a shelf, or cannot be."""

    shelf: Shelf | None = None
    guarantee: str = "at least once"
    takes: frozenset[str] = ALL_ROWS

    def prepare(self, target: Target) -> Shelf:
        if self.shelf is None:
            raise SinkError("There is no shelf.", fix="Build one.")
        return self.shelf


@pytest.mark.parametrize("failing", [False, True])
def test_what_is_prepared_is_closed_when_the_next_sink_cannot_be(tmp_path: Path, failing: bool) -> None:
    shelf = Shelf(failing=failing)
    events = sl.Flow("f").source("events", sl.Generator(seed=1, rows=1), time="at")
    events.sink("one", Place(shelf))
    events.sink("two", Place())
    with pytest.raises(SinkError, match="no shelf"):
        prepare(
            events.flow,
            LocalStorage(tmp_path),
            "new",
            acknowledged=False,
            restored_from=None,
            last={},
            spark=lambda: None,
        )
    assert shelf.closed

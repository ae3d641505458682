"""A state folder, as a run would have left it, made by the kernel alone."""

from __future__ import annotations

from pathlib import Path

import strandline as sl
from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.segments import GREATEST_HASH
from strandline.model.ticks import Tick
from strandline.model.time import Instant
from strandline.store.joining import record_of
from strandline.store.journal import write_record
from strandline.store.manifests import Manifest, Manifests
from strandline.store.state_files import write_state
from strandline.store.storage import Storage, storage_at
from strandline.testing import Events, Watermark
from tests.states.case import Case, Piece, events, keyed


def per_minute() -> Case:
    """A flow `stored` with a stage `stage`: what each user does in a minute."""
    stage = keyed("user").window(sl.Tumbling("1m"), lateness="5m").aggregate("stage", n=sl.Count(), total=sl.Sum("x"))
    seen = events(("ann", 1, "12:00:03"), ("ann", 3, "12:00:10"), ("bob", 5, "12:00:20"), ("eve", 2, "12:01:30"))
    return Case(stage, (Events(seen), Watermark("2026-01-01T12:01:00Z")), Events([]))


NAMES = ("rows", "behind", "rejected", "backlog", "books", "panes", "hottest", "bounds", "took", "lags")
EMPTY = {**{name: {} for name in NAMES}, "caught_up": True, "written": 0, "interval": 1_000_000, "endless": []}


def keep(folder: Path, case: Case) -> Storage:
    """Make the ticks of a case, and leave what they come to."""
    storage, piece, stages = storage_at(folder), Piece(case), {}
    for each in case.before:
        piece.tick(each)
    for name, kernel in piece.stages.items():
        reached = int(piece.edges[name].after)
        part = write_state(kernel.plan, storage, name, 0, kernel.state, 0, GREATEST_HASH, watermark=reached)
        stages[name] = record_of(fingerprint(kernel.plan), [part], watermark=reached)
    now = Instant.of("2026-01-01T12:00:00Z")
    head = Manifest(
        flow=case.stage.flow.name, incarnation="i", run="r", tick=Tick(number=0, now=now, edges=dict(piece.edges)),
        stages=stages, journal=EMPTY,
    )  # fmt: skip
    Manifests(storage).commit(head)
    write_record(storage, head, took={}, delivered={})
    return storage

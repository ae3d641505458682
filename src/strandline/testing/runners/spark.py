"""Play with the real engine: a streaming query, state files, manifests, sinks; a crash is a restart from them.

The script of the play is the source, and sinks that keep everything stand behind the played stream and beside every
stage. Time is the script's: the engine gets it in place of the clock's.
"""

from __future__ import annotations

import copy
import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from strandline.errors import DataError, TranscriptError
from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, SourceNode, StageNode, Stateful
from strandline.model.partitions import SourceState
from strandline.model.rebuild import rebuild
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.watermarks import Policy
from strandline.spark.reading import Heard
from strandline.spark.resolving import resolved
from strandline.spark.run import Driver, Options
from strandline.spark.session import active_as_before, session, session_of_run
from strandline.spark.ticking import move_sources
from strandline.store.journal import records
from strandline.store.layout import manifest_file
from strandline.store.manifests import Manifest, Manifests
from strandline.store.storage import Storage, storage_at
from strandline.testing.capture import Captures, captured
from strandline.testing.results import Books, PlayedTick
from strandline.testing.script import ScriptedSource, ScriptedTick, script_of
from strandline.testing.source import RUN
from strandline.testing.steps import Crash, Step, named


def play_on_spark(flow: Flow, steps: Sequence[Step], options: Mapping[str, Any]) -> list[PlayedTick]:
    """What the last node of a flow shows, step by step. `options`: `spark`, `buckets`, `tasks`."""
    given = session(options.get("spark"), name="play")
    with tempfile.TemporaryDirectory(prefix="strandline-play-") as folder, active_as_before():
        piece = _Piece(session_of_run(given), flow, steps, storage_at(folder), options.get("tasks"))
        return piece.play(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """What a tick left, as far as it must be the same when the tick is made again."""

    tick: object
    sources: object
    sinks: object
    books: object
    stages: Mapping[str, object]


class _Piece:
    """A flow being played by the engine."""

    def __init__(
        self, spark: SparkSession, flow: Flow, steps: Sequence[Step], storage: Storage, tasks: int | None
    ) -> None:
        self.spark, self.storage, self.tasks = spark, storage, tasks
        self.sources = [node for node in flow.nodes if isinstance(node, SourceNode)]
        names = [source.name for source in self.sources]
        self.scripts = {source.name: script_of(source, steps, names) for source in self.sources}
        self.length = sum(not isinstance(step, Crash) for step in steps)
        self.captures = Captures()
        self.flow = captured(resolved(spark, flow), self.captures)
        self.stages = {node.name: isinstance(node, StageNode) for node in flow.nodes if isinstance(node, Stateful)}
        self.watermarks = dict.fromkeys([*names, *self.stages], Edge.first().after)

    def play(self, steps: Sequence[Step]) -> list[PlayedTick]:
        self._run_all(steps)
        told = {record["tick"]: record for record in records(self.storage)}
        shown, number = [], 0
        for step in steps:
            if isinstance(step, Crash):
                shown.append(PlayedTick(watermarks=dict(self.watermarks)))
            else:
                shown.append(self._shown(number, told[number]))
                number += 1
        return shown

    # -- the runs -----------------------------------------------------------------------------------------------

    def _run_all(self, steps: Sequence[Step]) -> None:
        """Run up to each crash; there the last tick is taken back, and the next run makes it again from the files."""
        wanted = 0
        before: tuple[int, str, _Left] | None = None
        for place, step in [*named(steps), ("the end", None)]:
            if step is not None and not isinstance(step, Crash):
                wanted += 1
                continue
            self._run_to(wanted)
            if before is not None:
                self._compare(*before)
            before = None if step is None else self._take_back(place)

    def _run_to(self, end: int) -> None:
        """Make the ticks up to a step. Where the clock begins, and that matters, another run begins too."""
        clock = min(
            next((n for n, tick in enumerate(script) if tick.clocked), self.length) for script in self.scripts.values()
        )
        if any(source.watermark.max_future is not None for source in self.sources):
            self._run(min(clock, end), clocked=False)
        self._run(end, clocked=True)

    def _run(self, end: int, *, clocked: bool) -> None:
        """Make the ticks that are missing up to a step."""
        head = Manifests(self.storage).head()
        if end <= (0 if head is None else head.number + 1):
            return
        flow = rebuild(self.flow, partial(self._as_scripted, end=end, clocked=clocked))
        options = Options(until="caught_up", retain=self.length + 2)
        driver = Driver(self.spark, flow, self.storage, options, restarts=0)
        driver.engine.move = partial(_move, self.scripts)
        driver.engine.run, driver.engine.endless = RUN, True
        if self.tasks is not None:
            driver.engine.tasks, driver.engine.small = self.tasks, 0
        driver.run()

    def _as_scripted(self, node: AnyNode, *, end: int, clocked: bool) -> AnyNode:
        if not isinstance(node, SourceNode):
            return node
        # Before the first processing time there is no time of day that an event could be ahead of.
        policy = node.watermark if clocked else _without_future(node.watermark)
        return replace(node, source=ScriptedSource(node.source.schema, self.scripts[node.name], end), watermark=policy)

    # -- crashes ------------------------------------------------------------------------------------------------

    def _take_back(self, place: str) -> tuple[int, str, _Left] | None:
        """Crash as if the last tick had not been committed."""
        head = Manifests(self.storage).head()
        if head is None:
            return None
        left = _left(self.storage, head)
        self.storage.delete([manifest_file(head.number)])
        self.captures.forget(head.number)
        return head.number, place, left

    def _compare(self, number: int, place: str, left: _Left) -> None:
        again = _left(self.storage, Manifests(self.storage).at(number))
        if again != left:
            raise DataError(
                f"{place}: after the crash the tick, made again, leaves {again}, where it had left {left}.",
                fix="A user's own window, aggregate or policy must be a pure function; otherwise please report this fault.",
            )

    # -- what is shown ------------------------------------------------------------------------------------------

    def _shown(self, number: int, record: Mapping[str, Any]) -> PlayedTick:
        books = {name: Books(**record["books"].get(name, {})) for name in self.watermarks}
        beside = self.captures.beside
        for name, windows in self.stages.items():
            late, rejected = beside("late", number, name), beside("rejected", number, name)
            books[name].balance(name, rows=books[name].rows, late=late, rejected=rejected, windows=windows)
        self.watermarks = {name: Instant(record["watermarks"][name]) for name in self.watermarks}
        return PlayedTick(
            panes=self.captures.shown(number),
            late=beside("late", number),
            rejected=beside("rejected", number),
            replaced=beside("replaced", number),
            books=books,
            watermarks=dict(self.watermarks),
        )


def _without_future(policy: Policy) -> Policy:
    if policy.max_future is None:
        return policy
    bare = copy.copy(policy)
    object.__setattr__(bare, "max_future", None)
    return bare


def _move(
    scripts: Mapping[str, Sequence[ScriptedTick]], flow: Flow, head: Manifest | None, heard: Iterable[Heard], places: object,
    *, now: Instant, running: Span, run: str, ending: bool,
) -> dict[str, SourceState]:  # fmt: skip
    """Each source after a tick: where its script says, and, where that leaves it to the policy, where that says."""
    ticks = {name: script[0 if head is None else head.number + 1] for name, script in scripts.items()}
    found = list(heard)
    states = {}
    for name, tick in ticks.items():
        before = (head.sources.get(name) if head else None) or SourceState()
        if tick.watermark is not None and tick.watermark < before.watermark:
            raise TranscriptError(
                f"{tick.place}: the watermark goes back from {before.watermark.text} to {tick.watermark.text}.",
                fix="Give watermarks in order; one never moves backwards.",
            )
        moved = before
        if tick.decides:
            moved = move_sources(flow, head, found, {}, now=now, running=tick.running, run=RUN, ending=False)[name]
        reached = moved.watermark if tick.watermark is None else max(moved.watermark, tick.watermark)
        times = [stats.greatest for each in found if each.source == name for stats in each.stats.values()]
        states[name] = replace(moved, watermark=reached, seen=max([moved.seen, *times]))
    return states


def _left(storage: Storage, manifest: Manifest) -> _Left:
    def stage(name: str) -> object:
        record = manifest.stages[name]
        digests = {file: hashlib.sha256(storage.read(file)).hexdigest() for file in record.files}
        refs = [replace(ref, file=digests[ref.file]) for ref in record.refs]
        return refs, record.due, record.watermark, record.rows, record.nbytes

    return _Left(
        tick=manifest.tick,
        sources=dict(manifest.sources),
        sinks={name: sink.digest for name, sink in manifest.sinks.items()},
        books=manifest.journal["books"],
        stages={name: stage(name) for name in manifest.stages},
    )

"""Start a run: everything that can be wrong is said here, before the first tick."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from strandline.errors import CheckFailed, DescriptionError, RunError, StateError, StrandlineError, raised_by
from strandline.kernel.fingerprint import require_fitting
from strandline.kernel.stateful import plan_of
from strandline.model.batch import as_batch
from strandline.model.flow import Flow
from strandline.model.hashing import HASH_VERSION
from strandline.model.nodes import SinkNode, SourceNode, Stateful
from strandline.model.targets import Reads
from strandline.model.time import Instant, Span
from strandline.sinks.contract import Marker
from strandline.spark import clock
from strandline.spark.ended import noted
from strandline.spark.failures import UNANSWERED, told_by
from strandline.spark.frames import require_plain_names
from strandline.spark.program import frame_sources
from strandline.spark.resolving import is_stateless, resolved
from strandline.spark.run import Driver, Options
from strandline.spark.session import active_as_before, require_startable, session, session_of_run
from strandline.store.layout import manifest_file
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifest, Manifests
from strandline.store.probe import probe
from strandline.store.runs import note_begin, note_end
from strandline.store.savepoints import going_back, savepoint
from strandline.store.storage import Storage, storage_at


@dataclass(slots=True, kw_only=True)
class Start:
    """How a run of a flow begins, the first time and after each failure."""

    flow: Flow
    state: str | PathLike[str]
    spark: Any
    options: Options
    from_savepoint: str | None
    drop: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    """What whoever starts the run should know."""
    began_at: int | None = None
    """The head at the first start; -1 where there was none."""

    def driver(self, restarts: int) -> Driver:
        """A driver that goes on from the head; it has looked at everything that can be known before the start."""
        began = clock.now()
        try:
            return self._driver(restarts)
        except Exception as error:
            self._note(began, error)
            if isinstance(error, UNANSWERED):
                raise told_by(error) from error
            raise

    def _note(self, began: Instant, error: Exception) -> None:
        """Write down that a flow which has a state could not begin: who watches it sees no ticks, and wants to know why."""
        with suppress(Exception):  # why it could not begin is what is told
            storage = storage_at(self.state)
            if not isinstance(error, DescriptionError | CheckFailed) and Manifests(storage).numbers():
                note_end(storage, note_begin(storage, uuid.uuid4().hex, began), clock.now(), told_by(error))

    def _driver(self, restarts: int) -> Driver:
        began = clock.elapsed()
        storage = storage_at(self.state)
        _require_state_apart(self.flow, storage)
        require_startable(self.spark)
        probe(storage)
        given = session(self.spark, name=self.flow.name)
        with active_as_before():
            spark = session_of_run(given)
            flow = resolved(spark, as_batch(self.flow) if self.options.until == "end" else self.flow)
            head = self._require_fitting(spark, flow, storage)
            restarts = max(restarts, 0 if head is None else head.restarts + 1)
            self._forget_what_was_acknowledged(head)
            driver = self._made(spark, flow, storage, restarts=restarts, began=began)
        self.notes += [note for note in driver.publishing.notes() if note not in self.notes]
        if self.began_at is None:
            begun = Manifests(storage).head()
            self.began_at = -1 if begun is None else begun.number
        return driver

    def _forget_what_was_acknowledged(self, head: Manifest | None) -> None:
        """What is acknowledged is what is found at the start: what targets lose later, a restart must not pass over.

        Behind the next tick but one, the first that was made here is published.
        """
        if self.began_at is not None and head is not None and head.number > self.began_at + 1:
            self.options = replace(self.options, acknowledged=False)

    def _made(self, spark: SparkSession, flow: Flow, storage: Storage, *, restarts: int, began: Span) -> Driver:
        if self.from_savepoint is None:
            return Driver(spark, flow, storage, self.options, restarts=restarts, began=began)
        with going_back(storage, self.from_savepoint) as first:
            driver = Driver(spark, flow, storage, self.options, restarts=restarts, began=began, first=first)
        self.from_savepoint = None  # a restart goes on from the head
        return driver

    def _require_fitting(self, spark: SparkSession, flow: Flow, storage: Storage) -> Manifest | None:
        """From where the run goes on, which the flow fits: the head, or the savepoint that it goes back to."""
        head = savepoint(storage, self.from_savepoint).manifest if self.from_savepoint else Manifests(storage).head()
        if head is not None:
            self.notes = self._require_compatible(spark, flow, head) or self.notes
            if self.from_savepoint is None:  # what a savepoint has for sinks they have had, or the head tells of it
                require_no_rows_left(flow, head, noted(storage, head.incarnation), drop=self.drop)
        _require_frames(spark, flow)
        return head

    def _require_compatible(self, spark: SparkSession, flow: Flow, head: Manifest) -> list[str]:
        try:
            return require_compatible(flow, head, drop=self.drop)
        except StateError as error:
            if not self._fits_the_other_way(spark, head):
                raise
            begun, fix = "batch", "Go on with until='end'"
            if self.options.until == "end":
                begun, fix = "a stream", "Go on with until='caught_up' or 'forever', and end it with Run.drain()"
            raise StateError(
                f"The state was begun as {begun}, and until={self.options.until!r} shows windows in another way.",
                fix=f"{fix}; or give this run a state folder of its own.",
            ) from error

    def _fits_the_other_way(self, spark: SparkSession, head: Manifest) -> bool:
        other = self.flow if self.options.until == "end" else as_batch(self.flow)
        try:
            require_compatible(resolved(spark, other), head, drop=self.drop)
        except StrandlineError:
            return False
        return True


def _require_state_apart(flow: Flow, storage: Storage) -> None:
    """Refuse to keep state where a source would take it for data."""
    if isinstance(storage, LocalStorage):
        manifest = os.path.realpath(os.path.join(storage.root, manifest_file(0)))
        for node in flow.nodes:
            if isinstance(node, SourceNode) and isinstance(node.source, Reads) and node.source.reads(manifest):
                raise RunError(
                    f"The state would be kept in {storage.root}, where the source {node.name!r} reads its files.",
                    fix="Keep the state beside the data: run(state=...) with a folder that no source reads.",
                )


def require_compatible(flow: Flow, head: Manifest, *, drop: tuple[str, ...] = ()) -> list[str]:
    """Refuse a flow that cannot go on from this state, each reason by name; say what starts anew where it can.

    A new stage starts empty, and so does an added aggregate in the windows that are open. A stage that is gone needs
    consent; one that was changed is refused.
    """
    if head.flow != flow.name:
        raise StateError(
            f"The state is that of the flow {head.flow!r}, and not of {flow.name!r}.",
            fix="Give this flow a state folder of its own, or fork a savepoint under the new name.",
        )
    if head.buckets != flow.buckets or head.hash_version != HASH_VERSION:
        raise StateError(
            f"The state was made with buckets={head.buckets} (hash version {head.hash_version}), the flow has {flow.buckets}.",
            fix=f"Write Flow({flow.name!r}, buckets={head.buckets}): the number is fixed when state is made.",
        )
    stages = {node.name: node for node in flow.nodes if isinstance(node, Stateful)}
    notes = [f"The stage {name!r} is new, and starts empty." for name in stages if name not in head.stages]
    for name, record in head.stages.items():
        if name in stages:
            added = require_fitting(plan_of(flow, stages[name]), record.about)
            notes += [_starts_anew(name, aggregate, head) for aggregate in added]
        elif name not in drop:
            raise StateError(
                f"The state has a stage {name!r} of {record.rows} rows, which the flow has no more.",
                fix=f"Put it back, or give its state up: run(..., drop=[{name!r}]).",
            )
    _require_sources(flow, head, drop)
    _require_same_frames(flow, head)
    # A name that is gone already is no error: a run may be started again with the same words.
    notes += [
        f"There is no {name!r} in the state to drop."
        for name in drop
        if name not in {*head.stages, *head.sources, *head.sinks}
    ]
    if head.finished:
        notes.append(f"The flow came to its end in tick {head.number}: nothing is read any more.")
    return notes


def require_no_rows_left(flow: Flow, head: Manifest, had: Mapping[str, Marker], *, drop: tuple[str, ...] = ()) -> None:
    """Refuse a flow without a sink that may lack rows: nobody would ever publish them. `had`: the last that sinks had."""
    there = {node.name for node in flow.nodes if isinstance(node, SinkNode)}
    for name, record in head.sinks.items():
        ticks = [*(tick.tick for tick in record.pending), *([head.number] if record.outputs else [])]
        if name in there or name in drop or not ticks or (name in had and had[name].tick >= ticks[-1]):
            continue
        raise StateError(
            f"The state has rows of tick {ticks[-1]} for the sink {name!r}, which it has perhaps not had; the flow has it no "
            "more.",
            fix=f"Put it back for one more run, or give the rows up: run(..., drop=[{name!r}]).",
        )


def _starts_anew(stage: str, aggregate: str, head: Manifest) -> str:
    return (
        f"The aggregate {aggregate!r} of stage {stage!r} is new: windows that are open show it over the events after tick "
        f"{head.number}."
    )


def _require_sources(flow: Flow, head: Manifest, drop: tuple[str, ...]) -> None:
    names = {node.name for node in flow.nodes if isinstance(node, SourceNode)}
    for name in head.sources:
        if name not in names and name not in drop:
            raise StateError(
                f"The state knows how far the source {name!r} was read, which the flow has no more.",
                fix=f"Put it back, or forget it: run(..., drop=[{name!r}]).",
            )


def _require_same_frames(flow: Flow, head: Manifest) -> None:
    here = tuple(node.name for node in frame_sources(flow))
    if head.spark is not None and head.spark.frames != here:
        there, now = (", ".join(map(repr, names)) or "none" for names in (head.spark.frames, here))
        raise StateError(
            f"The state was made with these DataFrame sources: {there}; the flow has: {now}. Spark knows them by their place.",
            fix="Keep their number and order; or begin with a state folder of its own.",
        )


def _require_frames(spark: SparkSession, flow: Flow) -> None:
    for node in frame_sources(flow):
        _require_columns(spark, node)


def _require_columns(spark: SparkSession, node: SourceNode) -> None:
    build = node.source.build  # type: ignore[attr-defined]
    try:
        frame = build(spark)
    except Exception as error:
        raise RunError(
            f"In the source {node.name!r}, {raised_by(build, error)}",
            fix="Mend the function: it gets the Spark session, and gives a streaming DataFrame.",
        ) from error
    if not isinstance(frame, DataFrame):
        raise RunError(
            f"What builds the source {node.name!r} gave {frame!r}, no DataFrame.", fix="Let it return the DataFrame."
        )
    if not frame.isStreaming:
        raise RunError(
            f"The DataFrame of the source {node.name!r} is not a streaming one.", fix="Build it with spark.readStream."
        )
    if not is_stateless(frame):
        raise RunError(
            f"The DataFrame of the source {node.name!r} remembers rows, and would forget them at each start.",
            fix="Leave joins, aggregates and dropDuplicates to stages; keep row by row work.",
        )
    require_plain_names(frame.columns, f"The DataFrame of the source {node.name!r}")
    there: Mapping[str, str] = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for name, kind in node.source.schema.columns:
        if there.get(name) != kind.text:
            raise RunError(
                f"The source {node.name!r} should have the column {name} {kind.text}; its DataFrame has "
                f"{there.get(name) or 'no such column'}.",
                fix="Write the schema as the DataFrame has it, or cast in the function that builds it.",
            )

"""A run of a flow: the protocol of a tick, step by step. This module is its table of contents.

    1  offsets     Spark pins what batch n reads, and its processing time        spark/datasource.py
    2  who am I    the tick follows the head, and nobody else has moved it       here
    3  read        rows become partials in the tasks that read them              spark/reading.py
    4  tick, step  time moves, stages are stepped, files are written             spark/engine.py
    5  commit      the manifest is created once; from here on the tick is true   store/manifests.py
    6  publish     each sink gets the tick's rows from the files                 spark/publishing.py
    7  clean up    what no manifest and no savepoint names is removed            store/cleanup.py

Steps 6 and 7 are done beside the next tick's reading and stepping, which is committed when they are done: so all ticks
before the head are published. A run that dies anywhere is followed by one that publishes the head again and goes on
behind it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from strandline.errors import RunError, StrandlineError
from strandline.model.flow import Flow
from strandline.model.options import Until
from strandline.model.time import Span
from strandline.sources.contract import Limit
from strandline.spark import clock
from strandline.spark.admission import Admission
from strandline.spark.beside import Beside
from strandline.spark.checkpoint import Checkpoint, make_checkpoint, remembering, require_same_kinds
from strandline.spark.datasource import FORMAT, write_limits
from strandline.spark.ended import leave_note, noted
from strandline.spark.engine import Engine, Pending
from strandline.spark.failures import told_by
from strandline.spark.hops import from_dataframe
from strandline.spark.points import reach
from strandline.spark.program import frame_sources, own_sources
from strandline.spark.publishing import Publishing, prepare
from strandline.spark.session import active_as_before, java_ends
from strandline.spark.texts import to_text
from strandline.store.cleanup import clean
from strandline.store.journal import forget_records, write_record
from strandline.store.layout import source_folder
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifest, Manifests
from strandline.store.opened import OPENED
from strandline.store.runs import RunNote, note_begin, note_end
from strandline.store.storage import Storage

CLEAN_EVERY: Final = 10  # ticks
RECORDS: Final = 10_000  # ticks that the journal tells of
INCARNATION: Final = "incarnation"  # the file that holds it until there is a head


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a flow is run."""

    until: Until = "forever"
    batch_interval: Span = field(default_factory=lambda: Span.of("1s"))
    max_rows_per_tick: int | None = None
    max_bytes_per_tick: int | None = None
    retain: int = 10
    acknowledged: bool = False


class Driver:
    """One attempt at running a resolved flow on a session: from the head until it stops, or fails.

    `first` becomes the head when nothing stands against it any more, the sinks least of all: it is how a run goes back.
    """

    def __init__(
        self, spark: SparkSession, flow: Flow, storage: Storage, options: Options, *, restarts: int, began: Span | None = None,
        first: Manifest | None = None,
    ) -> None:  # fmt: skip
        self.spark, self.flow, self.storage, self.options = spark, flow, storage, options
        self.restarts = restarts
        self.began = clock.elapsed() if began is None else began
        self.starting: dict[str, int] = {}  # how long the start took, for the journal of the first tick
        self.manifests = Manifests(storage)
        self.head = self.manifests.head() if first is None else first
        self.stopping = threading.Event()
        self.draining = threading.Event()
        self.done = threading.Event()
        self.ticking = threading.Lock()  # held while a tick is made
        self.failure: BaseException | None = None
        self.publication = Beside("publish")  # of the head
        self.ticks = 0
        self.idle_since = clock.elapsed()
        self.admission = Admission(target=Span(max(5 * options.batch_interval, 2_000_000)))
        incarnation = _incarnation(storage, self.head)
        readers = {
            name: source.reader(storage.within(source_folder(name))) for name, source in own_sources(flow).items()
        }
        require_same_kinds(readers, self.head.spark if self.head else None)
        self.engine = Engine(
            spark=spark, flow=flow, readers=readers, storage=storage, run=uuid.uuid4().hex, incarnation=incarnation,
            tasks=spark.sparkContext.defaultParallelism, interval=options.batch_interval, started=clock.elapsed(),
        )  # fmt: skip
        self.publishing: Publishing = prepare(
            flow,
            storage,
            incarnation,
            acknowledged=options.acknowledged,
            restored_from=self.head.restored_from if self.head else None,
            last=noted(storage, incarnation),
            spark=lambda: spark,
        )
        if first is not None:
            self._begin_with(first)
        self.control = Path(tempfile.mkdtemp(prefix="strandline-"))  # last: what may fail before leaves nothing behind
        self.note: RunNote | None = None

    def _begin_with(self, first: Manifest) -> None:
        try:
            self.manifests.commit(first)
        except BaseException:
            with suppress(Exception):  # why it could not be committed is what is told
                self.publishing.close()
            raise

    def run(self) -> None:
        """Publish the head again, then make ticks until it is time to stop."""
        try:
            self.note = note_begin(self.storage, self.engine.run, clock.now())
            if self.head is not None:
                delivered = self.publishing.publish(self.head, again=True)
                if self.head.restored_from is None:  # the run before may have died between commit and journal
                    write_record(self.storage, self.head, took={}, delivered=delivered)
                self.starting["resumed"] = clock.elapsed() - self.began
                reach("resumed", self.head.number)
            if self.head is None or not self.head.finished:
                self._make_ticks()
        except Exception as error:
            self._fail(error)
        finally:
            self._let_go()
        failure = None if self.failure is None or self._was_stopped_with_spark() else told_by(self.failure)
        if self.note is not None:
            with suppress(StrandlineError, OSError):  # how the run ended is what is told, here too
                note_end(self.storage, self.note, clock.now(), failure)
        if failure is not None:
            raise failure

    def _was_stopped_with_spark(self) -> bool:
        """Whether the failure is only that a stop was asked for and Java asked too: whoever ends a service ends all of it."""
        return self.stopping.is_set() and not isinstance(self.failure, StrandlineError) and java_ends()

    def _let_go(self) -> None:
        """Whatever happened, the head is published if it can be; then nothing is held any more."""
        self.publication.close()
        shutil.rmtree(self.control, ignore_errors=True)
        OPENED.forget(self.storage)  # a process may outlive many runs
        try:
            self.publishing.close()
            if self.failure is None:
                leave_note(self.storage, self.publishing.markers())
        except Exception as error:
            self._fail(error)

    def stop(self) -> None:
        """Stop after the tick that is being made; windows stay open."""
        self.stopping.set()

    def drain(self) -> None:
        """Read what is there, let time go to its end, show everything, and be finished."""
        self.draining.set()

    # -- the query ----------------------------------------------------------------------------------------------

    def _make_ticks(self) -> None:
        frames = tuple(node.name for node in frame_sources(self.flow))
        place, needed = self.head.spark if self.head else None, remembering(self.storage) if frames else ()
        checkpoint = make_checkpoint(self._spark_folder(), place, frames, needed=needed)
        self._limit()
        with active_as_before():  # what builds a DataFrame source may make tables
            query = self._start(checkpoint)
        try:
            while not self.done.wait(0.05):
                self._stop_between_ticks()
                if not query.isActive:
                    self.failure = self.failure or query.exception() or RunError(
                        "Spark's query ended by itself.", fix="Look at Spark's log; then start the flow again."
                    )  # fmt: skip
                    return
        finally:
            _stop(query)

    def _stop_between_ticks(self) -> None:
        """Stop at once if no tick is being made: the next one may be a long way off."""
        if self.stopping.is_set() and self.ticking.acquire(blocking=False):
            self.done.set()
            self.ticking.release()

    def _start(self, checkpoint: Checkpoint) -> StreamingQuery:
        frame = self.spark.readStream.format(FORMAT).options(
            readers=to_text(self.engine.readers), program=self.engine.text,
            limits=str(self.control / "limits.json"), tasks=str(self.engine.tasks),
        ).load()  # fmt: skip
        for node in frame_sources(self.flow):
            rows = node.source.build(self.spark)  # type: ignore[attr-defined]
            frame = frame.unionAll(from_dataframe(rows, self.flow, self.engine.text, node))
        interval = self.options.batch_interval if self.options.until == "forever" else Span(0)
        writer = frame.writeStream.foreachBatch(self._on_batch(checkpoint))
        writer = writer.trigger(processingTime=f"{int(interval) // 1000} milliseconds")
        # With its scheme: elsewhere Spark's own default may be another file system.
        return writer.option("checkpointLocation", f"file://{checkpoint.folder}").start()

    def _on_batch(self, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
        def on_batch(frame: DataFrame, batch: int) -> None:
            with self.ticking, active_as_before():
                if self.done.is_set():  # nothing may begin any more: the query is about to be stopped, or ends by this
                    raise InterruptedError("the run is over")
                self._guarded(frame, checkpoint, batch)

        return on_batch

    def _guarded(self, frame: DataFrame, checkpoint: Checkpoint, batch: int) -> None:
        """Make a tick. What it raises is raised again in the caller's thread; Spark only needs to stop."""
        try:
            self._tick(frame, checkpoint, batch)
        except BaseException as error:
            self._fail(error)
            raise
        if self._is_over():
            self.done.set()

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.done.set()

    # -- one tick -----------------------------------------------------------------------------------------------

    def _tick(self, frame: DataFrame, checkpoint: Checkpoint, batch: int) -> None:
        began = clock.elapsed()
        idle = began - self.idle_since
        manifest = self.engine.make(
            frame, checkpoint.place(batch), self.head, self._unpublished, ending=self._ending(), restarts=self.restarts
        )
        made = clock.elapsed()
        if self.ticks == 0:
            manifest = self._told_of_start(manifest, made)
        self.manifests.commit(manifest)
        self.head = manifest
        reach("committed", manifest.number)
        self.ticks += 1
        self.idle_since = clock.elapsed()
        took = {"idle": idle, "make": made - began, "commit": self.idle_since - made}
        self.publication.submit(self._publish, manifest, took, began)

    def _unpublished(self) -> Pending:
        """What sinks do not have yet of all ticks so far; one that may not be behind is waited for."""
        self.publication.result()
        return self.publishing.unpublished()

    def _publish(self, manifest: Manifest, took: dict[str, int], began: Span) -> None:
        """What is left to do with a tick that is true: beside the next one, and done before that is committed."""
        try:
            delivered = self.publishing.publish(manifest)
            reach("published", manifest.number)
            took["publish"] = clock.elapsed() - began - took["make"] - took["commit"]
            took["latency"] = clock.now() - manifest.tick.now
            write_record(self.storage, manifest, took=took, delivered=delivered)
            reach("recorded", manifest.number)
            self._clean_up(manifest)
            rows, rejected, backlog = (_sum(manifest.journal[name]) for name in ("rows", "rejected", "backlog"))
            self.admission.observe(rows=rows + rejected, took=Span(clock.elapsed() - began), more=backlog > 0)
            self._limit()
        except BaseException as error:
            self._fail(error)
            raise

    def _told_of_start(self, manifest: Manifest, made: Span) -> Manifest:
        """The first tick of a run says in the manifest how long the start took: a run may die before its journal."""
        took = {**manifest.journal["took"], **self.starting, "recovery": made - self.began}
        return replace(manifest, journal={**manifest.journal, "took": took})

    def _clean_up(self, manifest: Manifest) -> None:
        if manifest.number % CLEAN_EVERY == 0:
            clean(self.storage, keep=self.options.retain, now=clock.now())
            forget_records(self.storage, before=manifest.number - RECORDS, count=CLEAN_EVERY)
            reach("cleaned", manifest.number)

    def _ending(self) -> bool:
        return self.options.until == "end" or self.draining.is_set()

    def _is_over(self) -> bool:
        if self.stopping.is_set() or (self.head is not None and self.head.finished):
            return True
        if self.options.until == "forever" or self.head is None or self.head.spark is None:
            return False
        return self.options.until == "caught_up" and bool(self.head.journal["caught_up"])

    def _limit(self) -> None:
        rows = self.options.max_rows_per_tick or self.admission.limit
        limit = Limit(rows=rows, bytes=self.options.max_bytes_per_tick)
        write_limits(str(self.control / "limits.json"), dict.fromkeys(self.engine.readers, limit))

    def _spark_folder(self) -> Path:
        """Where Spark keeps its own: beside the state if that is here, for what its own sources remember."""
        if isinstance(self.storage, LocalStorage):
            folder = Path(self.storage.root) / "spark"
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        return self.control / "spark"


def _incarnation(storage: Storage, head: Manifest | None) -> str:
    """The head's. Before the first tick one that is kept: sinks are claimed under it, and a run may die before a head."""
    if head is not None:
        return head.incarnation
    storage.create(INCARNATION, uuid.uuid4().hex.encode())
    return storage.read(INCARNATION).decode()


def _stop(query: StreamingQuery) -> None:
    with suppress(Exception):  # the run is over either way, and says itself why
        query.stop()


def _sum(counts: Mapping[str, Mapping[str, int]]) -> int:
    """Of all partitions of all sources."""
    return sum(count for mine in counts.values() for count in mine.values())

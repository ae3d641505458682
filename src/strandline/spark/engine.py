"""The work of one tick: read it, move time, step the stages in order, and say all of it in a manifest.

Nothing here is published, and nothing here is final: until the manifest is committed, a tick can be made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import polars as pl
from pyspark.sql import DataFrame, SparkSession

from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.preaggregate import Books
from strandline.kernel.shares import shares
from strandline.kernel.stateful import promise
from strandline.model.flow import Flow
from strandline.model.keeping import keeps_all_keys
from strandline.model.lag import LagHistogram
from strandline.model.nodes import SinkNode, SourceNode, Stateful, TransformNode, origin_of
from strandline.model.partitions import SourceState
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.sources.contract import Reader
from strandline.spark import clock
from strandline.spark.checkpoint import frame_offsets_of, offsets_of
from strandline.spark.datasource import CONTEXT
from strandline.spark.hops import Message, messages, step_shares, through_transform
from strandline.spark.outputs import frame_bytes, joint_digest, write_output
from strandline.spark.parcels import Parcel
from strandline.spark.points import reach
from strandline.spark.program import Work, program_of
from strandline.spark.reading import Context, Heard
from strandline.spark.stepping import Hot, Receipt, Step, hottest_of, step, touched
from strandline.spark.texts import to_text
from strandline.spark.ticking import Places, caught_up, edge_before, edges_before, move_sources
from strandline.store.joining import record_of
from strandline.store.manifests import Manifest
from strandline.store.records import OutputRef, PendingTick, SinkRecord, SparkPlace, StageRecord
from strandline.store.storage import Storage

Pending = Mapping[str, tuple[PendingTick, ...]]

SMALL: Final = 2 * 1024 * 1024
"""A stage with no more bytes of input than this, and little due, is stepped in the driver's process."""
MUCH_DUE: Final = 32 * 1024 * 1024
"""State of more bytes than this, some of it due, is stepped in tasks."""


@dataclass(slots=True)
class Made:
    """A tick in the making."""

    tick: int
    now: Instant
    context: Context
    edges: dict[str, Edge]
    heard: list[Heard] = field(default_factory=list)
    parcels: dict[int, list[Parcel]] = field(default_factory=dict)
    stages: dict[str, StageRecord] = field(default_factory=dict)
    books: dict[str, Books] = field(default_factory=dict)
    panes: dict[str, Counter[str]] = field(default_factory=dict)
    hottest: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    written: int = 0
    took: dict[str, int] = field(default_factory=dict)

    def take(self, found: Iterable[Message]) -> list[Receipt]:
        """Sort messages: what was heard, parcels by where they go; give the receipts."""
        receipts = []
        for told, data in found:
            if "heard" in told:
                self.heard.append(Heard.from_row(told["heard"]))
            elif "parcel" in told:
                self.put(Parcel.from_row(told["parcel"], data))
            else:
                receipts.append(Receipt.from_row(told["receipt"]))
        return receipts

    def put(self, parcel: Parcel) -> None:
        """Keep a parcel for the node it goes to."""
        self.parcels.setdefault(parcel.target, []).append(parcel)


@dataclass(slots=True)
class Engine:
    """A flow on a session: what stays the same from tick to tick."""

    spark: SparkSession
    flow: Flow
    readers: Mapping[str, Reader]
    storage: Storage
    run: str
    incarnation: str
    tasks: int
    interval: Span
    started: Span
    blocked: Span = Span(0)  # how long sinks have kept the run waiting
    small: int = field(default_factory=lambda: SMALL)
    move: Callable[..., dict[str, SourceState]] = move_sources
    endless: bool = False  # a play goes on behind the end of time
    work: Work = field(init=False)
    text: str = field(init=False)  # the program, as tasks get it

    def __post_init__(self) -> None:
        program = program_of(self.flow)
        self.work, self.text = Work(program), to_text(program)

    def make(
        self,
        frame: DataFrame,
        place: SparkPlace,
        head: Manifest | None,
        unpublished: Callable[[], Pending],
        *,
        ending: bool,
        restarts: int,
    ) -> Manifest:
        """Make the tick after the head from a batch of Spark's. `unpublished` waits for sinks, and tells what they lack."""
        offsets = offsets_of(place.offsets)
        made = self._begin(head, Instant(offsets["now"]))
        self._read(frame, made)
        places = self.places(offsets)
        # A DataFrame source does not say what it has left: a tick in which it does not move is taken for the end.
        before = [] if head is None or head.spark is None else frame_offsets_of(head.spark.offsets)
        read_up = caught_up(places) and frame_offsets_of(place.offsets) == before
        sources = self.move(
            self.flow, head, made.heard, places, now=made.now, running=Span(clock.elapsed() - self.started - self.blocked),
            run=self.run, ending=ending and read_up,
        )  # fmt: skip
        for name, state in sources.items():
            made.edges[name] = made.edges[name].moved_to(state.watermark, state.seen)
        reach("ticked", made.tick)
        self._step_all(made, head)
        pending = self._wait(unpublished, made)
        over = all(edge.after >= Instant.END_OF_TIME for n, edge in made.edges.items() if n in sources)
        return Manifest(
            flow=self.flow.name, incarnation=self.incarnation, run=self.run, parent=None if head is None else head.digest,
            tick=Tick(number=made.tick, now=made.now, edges=made.edges), spark=place, sources=sources,
            stages=made.stages, sinks=self._sinks(made, head, pending), buckets=self.flow.buckets, finished=over and not self.endless,
            journal={**_journal(made, places, read_up=read_up), **self._settings()}, restarts=restarts,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        """What was asked for, without which nobody can say whether a tick took long, or a watermark stays far behind."""
        bounds = {node.name: node.watermark.bound for node in self.flow.nodes if isinstance(node, SourceNode)}
        return {
            "interval": int(self.interval),
            "bounds": {name: int(bound) for name, bound in bounds.items() if bound is not None},
            "endless": [node.name for node in self.flow.nodes if isinstance(node, Stateful) and keeps_all_keys(node)],
        }

    def places(self, offsets: Mapping[str, Any]) -> Places:
        """Where each source's partitions stand."""
        told = offsets["sources"].items()
        return {n: self.readers[n].places(offset) for n, offset in told if n in self.readers}

    def _begin(self, head: Manifest | None, now: Instant) -> Made:
        number, edges = 0 if head is None else head.number + 1, edges_before(self.flow, head)
        before = {name: edge.after for name, edge in edges.items()}
        context = Context(tick=number, now=now, before=before, storage=self.storage.url, shares=self.tasks)
        # An edge that does not move in this tick has the same watermark before and after it.
        held = {name: replace(edge, before=edge.after) for name, edge in edges.items()}
        return Made(tick=number, now=now, context=context, edges=held)

    def _read(self, frame: DataFrame, made: Made) -> None:
        at = clock.elapsed()
        reach("offsets", made.tick)
        self.spark.sparkContext.setLocalProperty(CONTEXT, made.context.to_text())
        made.take(messages(frame))
        made.took["read"] = clock.elapsed() - at
        reach("read", made.tick)

    def _wait(self, unpublished: Callable[[], Pending], made: Made) -> Pending:
        at = clock.elapsed()
        pending = unpublished()
        made.took["waited"] = clock.elapsed() - at
        self.blocked = Span(self.blocked + made.took["waited"])
        return pending

    def _step_all(self, made: Made, head: Manifest | None) -> None:
        """Stages and transforms in the order of the flow: each takes what those before it gave in this tick."""
        at = clock.elapsed()
        for place, node in enumerate(self.flow.nodes):
            if isinstance(node, TransformNode) and made.parcels.get(place):
                before = made.context.before[origin_of(node).name]
                found = made.parcels.pop(place)
                made.take(through_transform(self.spark, self.text, place, node, found, made.context, before))
            elif isinstance(node, Stateful):
                self._step(place, node, made, None if head is None else head.stages.get(node.name))
        made.took["step"] = clock.elapsed() - at
        reach("stepped", made.tick)

    def _step(self, place: int, node: Stateful, made: Made, record: StageRecord | None) -> None:
        edge, parcels = edge_before(node, made.edges), tuple(made.parcels.pop(place, ()))
        plan = self.work.plan(place)
        about = fingerprint(plan)
        if not touched(record, parcels, edge, made.now):
            kept = record or StageRecord(about=about)
            self._move_output(plan, edge, kept.due.get("hold"), made)
            made.stages[node.name] = replace(kept, watermark=int(made.edges[node.name].after))
            return
        task = Step(
            stage=place, name=node.name, tick=made.tick, now=made.now, edge=edge, parcels=parcels, record=record,
            output_before=made.context.before[node.name], shares=tuple(self._shares(record, parcels, edge)),
            storage=self.storage.url,
        )  # fmt: skip
        receipts = self._run(task, made)
        holds = [int(receipt.hold) for receipt in receipts if receipt.hold is not None]
        self._move_output(plan, edge, min(holds, default=None), made)
        watermark = int(made.edges[node.name].after)
        made.stages[node.name] = record_of(about, [r.state for r in receipts], record, watermark=watermark)
        made.books[node.name] = sum((receipt.books for receipt in receipts), Books())
        made.panes[node.name] = sum((Counter(receipt.panes) for receipt in receipts), Counter())
        hottest = hottest_of(hot for receipt in receipts for hot in receipt.hottest)
        met = sum(receipt.met for receipt in receipts)
        made.hottest[node.name] = _with_share(hottest, met, made.books[node.name].rows)
        made.written += sum(receipt.state.written for receipt in receipts)

    def _shares(self, record: StageRecord | None, parcels: Sequence[Parcel], edge: Edge) -> list[tuple[int, int]]:
        """How many tasks a stage is worth. Parcels that were cut for tasks already must be taken by them."""
        due = record.due.get("event") if record else None
        much_due = record is not None and due is not None and edge.after >= due and record.nbytes > MUCH_DUE
        cut = any(parcel.share is not None for parcel in parcels)
        great = cut or much_due or sum(parcel.nbytes for parcel in parcels) > self.small
        return shares(self.flow.buckets, self.tasks if great else 1)

    def _run(self, task: Step, made: Made) -> list[Receipt]:
        if len(task.shares) > 1:
            return sorted(made.take(step_shares(self.spark, self.text, task)), key=lambda receipt: receipt.share)
        receipt, parcels = step(self.work, task, 0)
        for parcel in parcels:
            made.put(parcel)
        return [receipt]

    def _move_output(self, plan: AnyPlan, edge: Edge, hold: int | None, made: Made) -> None:
        reached = promise(plan, edge.after, None if hold is None else Instant(hold))
        made.edges[plan.name] = made.edges[plan.name].moved_to(reached, edge.seen)

    def _sinks(self, made: Made, head: Manifest | None, pending: Pending) -> dict[str, SinkRecord]:
        found = {}
        for place, node in enumerate(self.flow.nodes):
            if isinstance(node, SinkNode):
                outputs = self._outputs(node, made.parcels.pop(place, []), made.tick)
                found[node.name] = SinkRecord(
                    outputs=tuple(outputs),
                    digest=joint_digest(outputs) if outputs else "",
                    pending=pending.get(node.name, ()),
                    after=_last_delivery(head, node.name),
                )
        return found

    def _outputs(self, node: SinkNode, parcels: Sequence[Parcel], tick: int) -> list[OutputRef]:
        """The files of a tick's rows for a sink, in order; rows that travelled with messages are written now, together."""
        ordered = sorted(parcels, key=lambda parcel: parcel.order)
        refs: list[OutputRef] = []
        small: list[pl.DataFrame] = []

        def flush() -> None:
            if small:
                rows = pl.concat(small)
                refs.append(write_output(self.storage, node.name, tick, frame_bytes(rows), rows.height))
                small.clear()

        for parcel in ordered:
            if parcel.output is None:
                small.append(parcel.open(self.storage)[0])
            else:
                flush()
                refs.append(parcel.output)
        flush()
        return refs


def _last_delivery(head: Manifest | None, sink: str) -> int | None:
    """The last tick up to the head that had rows for a sink."""
    record = None if head is None else head.sinks.get(sink)
    if head is None or record is None:
        return None
    return head.number if record.outputs else record.after


def _with_share(hottest: Iterable[Hot], met: int, rows: int) -> list[dict[str, Any]]:
    """Keys with what part they are of all that windows `met`, and with how many of the stage's rows that is."""
    return [
        {"key": key, "rows": round(rows * count / met), "share": round(count / met, 4)}
        for key, count in hottest
        if count
    ]


def _journal(made: Made, places: Places, *, read_up: bool) -> dict[str, Any]:
    heard = {each.source: Books() for each in made.heard}
    partitions: dict[str, dict[str, int]] = {}
    rejected: dict[str, Counter[str]] = {}
    behind: dict[str, Counter[str]] = {}
    lags: dict[str, dict[str, LagHistogram]] = {}
    for each in made.heard:
        rejected.setdefault(each.source, Counter()).update(each.rejected)
        behind.setdefault(each.source, Counter()).update(each.behind)
        heard[each.source] += each.books
        for name, stats in each.stats.items():
            mine = partitions.setdefault(each.source, {})
            mine[name] = mine.get(name, 0) + stats.count
            of_source = lags.setdefault(each.source, {})
            of_source[name] = of_source.get(name, LagHistogram()) + stats.lags
    backlog = {s: {name: p.end - p.position for name, p in found.items()} for s, found in places.items()}
    return {
        "rows": partitions,
        "books": {name: asdict(books) for name, books in {**heard, **made.books}.items()},
        "rejected": rejected,
        "behind": behind,
        "lags": {
            source: {name: [list(pair) for pair in lag.coarse().counts] for name, lag in found.items() if lag.counts}
            for source, found in lags.items()
        },
        "panes": made.panes,
        "hottest": made.hottest,
        "backlog": backlog,
        "caught_up": read_up,
        "took": made.took,
        "written": made.written,
    }

"""Publish what ticks left for their sinks, in order, from the files that the manifest names."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import polars as pl

from strandline.model.flow import Flow
from strandline.model.nodes import SinkNode
from strandline.model.sinks import delivered
from strandline.model.time import Instant
from strandline.sinks.contract import Delivery, Marker, Publisher, Target, Telling
from strandline.spark import clock
from strandline.spark.outputs import read_output
from strandline.spark.points import reach
from strandline.spark.session import active_as_before
from strandline.store.journal import Delivered
from strandline.store.manifests import Manifest
from strandline.store.records import OutputRef, PendingTick
from strandline.store.storage import Storage


class Outlet:
    """A sink, prepared, and the ticks that it does not have yet.

    With `max_lag` a thread of its own publishes, and the flow waits only when the sink is further behind than that;
    without it the flow waits for every tick. What the sink raised is raised again to who waits.

    Law: ticks are published in order, each once.
    """

    def __init__(
        self, node: SinkNode, publisher: Publisher, storage: Storage, incarnation: str, last: Marker | None = None
    ) -> None:
        self.node, self.publisher, self.storage, self.incarnation = node, publisher, storage, incarnation
        self.last = last
        self.waiting: deque[PendingTick] = deque()
        self.changed = threading.Condition()
        self.failure: BaseException | None = None
        self.closed = False
        self.rows = 0
        self.took = 0  # microseconds that publishing has taken so far
        self.thread: threading.Thread | None = None

    @property
    def lag(self) -> int:
        """How many ticks the sink may be behind."""
        return self.node.max_lag or 0

    def add(self, ticks: Sequence[PendingTick]) -> None:
        """Have these ticks published, and wait until the sink is not too far behind."""
        with self.changed:
            self.waiting.extend(ticks)
            self.changed.notify_all()
        if self.lag == 0:
            while self.waiting:
                self._publish_next()
            return
        self._start()
        with self.changed:
            self.changed.wait_for(lambda: self.failure is not None or len(self.waiting) <= self.lag)
            if self.failure is not None:
                raise self.failure

    def unpublished(self) -> tuple[PendingTick, ...]:
        """What was given and is not published yet."""
        with self.changed:
            return tuple(self.waiting)

    def _start(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name=f"sink {self.node.name}", daemon=True)
            self.thread.start()

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.closed or self.waiting)
                if not self.waiting:
                    return
            try:
                self._publish_next()
            except BaseException as error:
                with self.changed:
                    self.failure = error
                    self.changed.notify_all()
                return

    def _publish_next(self) -> None:
        tick = self.waiting[0]
        delivery = Delivery(
            tick=tick.tick, incarnation=self.incarnation, digest=tick.digest, now=Instant(tick.now),
            rows=sum(ref.rows for ref in tick.outputs), tables=lambda: self._tables(tick.outputs), after=tick.after,
        )  # fmt: skip
        # A function of the user's gets a DataFrame of the run's session, and making one activates that.
        at = clock.elapsed()
        with active_as_before():
            self.rows += self.publisher.publish(delivery).rows
        self.took += clock.elapsed() - at
        self.last = Marker.of(delivery)
        with self.changed:
            self.waiting.popleft()
            self.changed.notify_all()

    def _tables(self, outputs: Sequence[OutputRef]) -> Iterator[pl.DataFrame]:
        frames = (read_output(self.storage, ref) for ref in outputs)
        if self.node.rows == "upsert" and len(outputs) > 1:
            # A key may have changed in several tasks: the last of them counts.
            together = pl.concat(list(frames))
            yield together.unique(subset=list(self.node.key), keep="last", maintain_order=True)
        else:
            yield from frames

    def close(self) -> None:
        """Publish what is waiting, then let go of the sink."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join()
        self.publisher.close()
        if self.failure is not None:
            raise self.failure


@dataclass(slots=True)
class Publishing:
    """All sinks of a run."""

    outlets: dict[str, Outlet]

    def publish(self, manifest: Manifest, *, again: bool = False) -> dict[str, Delivered]:
        """Publish what a tick left for each sink. `again`: at a start, when nobody knows what was published.

        A sink that is ahead of what is pending has had it; only it knows, so it is asked.
        """
        done = {}
        for name, outlet in self.outlets.items():
            record, rows, took = manifest.sinks.get(name), outlet.rows, outlet.took
            if record is None:
                continue
            known = (outlet.incarnation, manifest.restored_from)
            ticks = [tick for tick in record.pending if _lacks(outlet, tick, known)] if again else []
            if record.outputs:
                now = int(manifest.tick.now)
                ticks.append(
                    PendingTick(
                        tick=manifest.number, now=now, outputs=record.outputs, digest=record.digest, after=record.after
                    )
                )
            outlet.add(ticks)
            if ticks:
                reach("publishing", manifest.number)
            done[name] = Delivered(rows=outlet.rows - rows, took=outlet.took - took)
        return done

    def unpublished(self) -> dict[str, tuple[PendingTick, ...]]:
        """What each sink does not have yet."""
        return {name: outlet.unpublished() for name, outlet in self.outlets.items()}

    def notes(self) -> list[str]:
        """What the sinks found at the start that people should know."""
        told = ((name, outlet.publisher) for name, outlet in self.outlets.items())
        return [f"The sink {name!r}: {note}" for name, each in told if isinstance(each, Telling) for note in each.notes]

    def markers(self) -> dict[str, Marker]:
        """The last delivery that each sink has had, as far as this run knows."""
        return {name: outlet.last for name, outlet in self.outlets.items() if outlet.last is not None}

    def close(self) -> None:
        """Let go of every sink; what the first of them raised is raised when all are closed."""
        failures = []
        for outlet in self.outlets.values():
            try:
                outlet.close()
            except Exception as error:  # noqa: PERF203 - the others are closed all the same
                failures.append(error)
        if failures:
            raise failures[0]


def _lacks(outlet: Outlet, tick: PendingTick, known: tuple[str | None, ...]) -> bool:
    """Whether a sink may not have a tick, by its marker of one of the known incarnations: the own, or that before a restore.

    One that is exactly there is asked itself, which also compares the rows; but not about rows of another incarnation.
    """
    marker = outlet.publisher.marker
    if marker is None or marker.incarnation not in known:
        return True
    return marker.tick < tick.tick or (marker.tick == tick.tick and marker.incarnation == outlet.incarnation)


def prepare(
    flow: Flow, storage: Storage, incarnation: str, *, acknowledged: bool, restored_from: str | None,
    last: Mapping[str, Marker], spark: Callable[[], Any],
) -> Publishing:  # fmt: skip
    """Prepare every sink of a resolved flow, before anything starts; all of them, or none stays open."""
    publishing = Publishing({})
    try:
        for node in flow.nodes:
            if isinstance(node, SinkNode):
                schema = delivered(node)
                assert schema is not None, "a resolved flow knows its columns"
                target = Target(
                    flow=flow.name, sink=node.name, incarnation=incarnation, schema=schema, rows=node.rows,
                    key=node.key, acknowledged=acknowledged, restored_from=restored_from,
                    last=last.get(node.name), spark=spark,
                )  # fmt: skip
                publisher = node.sink.prepare(target)
                publishing.outlets[node.name] = Outlet(node, publisher, storage, incarnation, target.last)
    except BaseException:
        with suppress(Exception):  # why a sink could not be prepared is what is told
            publishing.close()
        raise
    return publishing

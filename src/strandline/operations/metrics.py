"""Metrics for Prometheus, made from the records of the journal as they come.

What each means stands in docs/monitoring.md, which a test holds beside `METRICS`; the dashboard and the alert rules in
`monitoring/` use these names and no others.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from strandline.errors import RunError
from strandline.model.time import Instant, Span
from strandline.operations.health.watched import RECENT, SECOND, Watched
from strandline.operations.overview import STEPS
from strandline.operations.partitions import partitions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics import MetricWrapperBase

LATE_OR_REJECTED: Final = ("late", "rejected")
_LADDER: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)  # seconds


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its kind, its labels beside `flow`, and what it says."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    says: str


METRICS: Final = (
    Metric("strandline_end_to_end_latency_seconds", "histogram", (), "The longest that a new row of a tick may have waited: from the tick before until sinks had this one."),
    Metric("strandline_watermark_lag_seconds", "gauge", ("source", "partition"), "How far a partition's watermark is behind processing time; none while it is idle."),
    Metric("strandline_watermark_bound_seconds", "gauge", ("source",), "How far a watermark is meant to stay behind, and at least a batch interval."),
    Metric("strandline_backlog", "gauge", ("source", "partition"), "What is there and not read, in what the source counts: rows, messages, files."),
    Metric("strandline_catching_up", "gauge", (), "1 while a backlog from a start or an outage shrinks: lag alarms are muted."),
    Metric("strandline_tick_duration_seconds", "histogram", (), "How long a tick took to make and commit."),
    Metric("strandline_tick_step_duration_seconds", "histogram", ("step",), "The same by step: read, step, waited (for sinks), commit; and publish, which is done beside the next tick."),
    Metric("strandline_batch_interval_seconds", "gauge", (), "The batch interval, which is what a tick may take."),
    Metric("strandline_last_tick_timestamp_seconds", "gauge", (), "The processing time of the last tick."),
    Metric("strandline_ticks_total", "counter", (), "Ticks."),
    Metric("strandline_restarts_total", "counter", (), "How often the flow was started again in its life."),
    Metric("strandline_state_rows", "gauge", ("stage",), "Rows of state, as they are written: one that was written again counts again until segments are merged."),
    Metric("strandline_state_bytes", "gauge", ("stage",), "Bytes of state."),
    Metric("strandline_rows_total", "counter", ("node",), "Rows that reached a source or stage."),
    Metric("strandline_late_rows_total", "counter", ("node",), "Rows that were dropped: they came too late for every window of a stage."),
    Metric("strandline_rejected_rows_total", "counter", ("node",), "Rows that a source or stage rejected."),
    Metric("strandline_panes_total", "counter", ("stage", "timing"), "Panes by timing (early, on_time, late), those taken back (retract), and rows of other stages (rows)."),
    Metric("strandline_hottest_key_share", "gauge", ("stage",), "The share of a stage's rows that its hottest key brought in the last tick that had rows."),
    Metric("strandline_sink_rows_total", "counter", ("sink",), "Rows that a sink was given."),
    Metric("strandline_sink_pending_ticks", "gauge", ("sink",), "Ticks that a sink is behind."),
)  # fmt: skip


class Metrics:
    """The metrics of a flow, in a registry of their own.

    Nodes are named before there are rows, so that the first late row is seen as one that was not there before.

    >>> metrics = Metrics("shop", interval=Span.of("1s"), nodes=["orders"])
    >>> metrics.registry.get_sample_value("strandline_late_rows_total", {"flow": "shop", "node": "orders"})
    0.0
    """

    def __init__(self, flow: str, *, interval: Span, nodes: Iterable[str] = ()) -> None:
        require_client()
        from prometheus_client import CollectorRegistry

        self.flow, self.interval = flow, interval
        self.registry: CollectorRegistry = CollectorRegistry()
        self._made = {metric.name: self._make(metric) for metric in METRICS}
        self._before: Mapping[str, Any] | None = None
        self._told: dict[str, frozenset[tuple[str, str]]] = {}  # the partitions of which something is told
        self._recent: list[Mapping[str, Any]] = []
        self._set("strandline_batch_interval_seconds", interval / SECOND)
        for node in nodes:
            for word in ("rows", *(f"{each}_rows" for each in LATE_OR_REJECTED)):
                self._of(f"strandline_{word}_total", node=node)

    def observe(self, record: Mapping[str, Any]) -> None:
        """Take in the next record of the journal."""
        self._count("strandline_ticks_total", 1)
        self._set("strandline_last_tick_timestamp_seconds", record["now"] / SECOND)
        known = 0 if self._before is None else self._before["restarts"]
        self._count("strandline_restarts_total", max(0, record["restarts"] - known))
        self._remember(record)
        self._observe_time(record)
        self._observe_sources(record)
        self._observe_stages(record)
        for sink, told in record["sinks"].items():
            self._count("strandline_sink_rows_total", told["rows"], sink=sink)
            self._set("strandline_sink_pending_ticks", told["pending"], sink=sink)
        self._before = record

    def _remember(self, record: Mapping[str, Any]) -> None:
        """Keep the records of the last while."""
        since = record["now"] - 2 * max(RECENT, 5 * self.interval)
        self._recent = [*(each for each in self._recent if each["now"] > since), record]

    def _observe_time(self, record: Mapping[str, Any]) -> None:
        took, before = record["took"], self._before
        if "make" in took:
            self._measure("strandline_tick_duration_seconds", took["make"] + took.get("commit", 0))
        for step in STEPS:
            if step in took:
                self._measure("strandline_tick_step_duration_seconds", took[step], step=step)
        if "latency" in took and any(books["rows"] for books in record["books"].values()):
            same = before is not None and before["run"] == record["run"]
            waited = record["now"] - before["now"] if same and before is not None else 0
            self._measure("strandline_end_to_end_latency_seconds", took["latency"] + waited)

    def _observe_sources(self, record: Mapping[str, Any]) -> None:
        lags, left = {}, {}
        for each in partitions(record):
            if Instant.BEFORE_ALL_TIME < each.watermark < Instant.END_OF_TIME and not each.idle:
                lags[each.source, each.name] = (record["now"] - each.watermark) / SECOND
            left[each.source, each.name] = each.backlog
        self._set_partitions("strandline_watermark_lag_seconds", lags)
        self._set_partitions("strandline_backlog", left)
        for source, bound in record.get("bounds", {}).items():
            self._set("strandline_watermark_bound_seconds", max(bound, self.interval) / SECOND, source=source)
        catching_up = Watched(records=self._recent, at=Instant(record["now"])).some_catch_up
        self._set("strandline_catching_up", float(catching_up))

    def _observe_stages(self, record: Mapping[str, Any]) -> None:
        for node, books in record["books"].items():
            self._count("strandline_rows_total", books["rows"], node=node)
            for word in LATE_OR_REJECTED:
                self._count(f"strandline_{word}_rows_total", books[word], node=node)
        for stage, state in record["state"].items():
            self._set("strandline_state_rows", state["rows"], stage=stage)
            self._set("strandline_state_bytes", state["bytes"], stage=stage)
        for stage, panes in record["panes"].items():
            for timing, count in panes.items():
                self._count("strandline_panes_total", count, stage=stage, timing=timing)
        for stage, hottest in record["hottest"].items():
            if hottest:
                self._set("strandline_hottest_key_share", hottest[0]["share"], stage=stage)

    # -- the client's ---------------------------------------------------------------------------------------------

    def _make(self, metric: Metric) -> MetricWrapperBase:
        from prometheus_client import Counter, Gauge, Histogram

        labels = ("flow", *metric.labels)
        if metric.kind == "histogram":
            return Histogram(metric.name, metric.says, labels, registry=self.registry, buckets=tuple(self._buckets()))
        kind = Gauge if metric.kind == "gauge" else Counter
        return kind(metric.name, metric.says, labels, registry=self.registry)

    def _buckets(self) -> Iterator[float]:
        """A ladder, and the interval with the tenth more that ticks may take: there a quantile is exact."""
        interval = self.interval / SECOND
        yield from sorted({*_LADDER, *((interval, 1.1 * interval, 2 * interval) if interval else ())})

    def _of(self, name: str, **labels: str) -> Any:
        return self._made[name].labels(flow=self.flow, **labels)

    def _set(self, name: str, value: float, **labels: str) -> None:
        self._of(name, **labels).set(value)

    def _set_partitions(self, name: str, values: Mapping[tuple[str, str], float]) -> None:
        """Partitions come and go: of one that is gone, or idle, nothing is told any more."""
        gone = self._told.get(name, frozenset()) - values.keys()
        for source, partition in gone:
            self._made[name].remove(self.flow, source, partition)
        for (source, partition), value in values.items():
            self._set(name, value, source=source, partition=partition)
        self._told[name] = frozenset(values)

    def _count(self, name: str, value: float, **labels: str) -> None:
        self._of(name, **labels).inc(value)

    def _measure(self, name: str, micros: int, **labels: str) -> None:
        self._of(name, **labels).observe(micros / SECOND)


class Endpoint:
    """Where Prometheus asks for a registry: http://host:port/metrics, until it is closed."""

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int) -> None:
        require_client()
        from prometheus_client import start_http_server

        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise _not_served(error, host, port) from error
        self.port: int = self._server.server_port
        here = host not in {"", "0.0.0.0", "::"}  # which are all addresses of this machine
        self.url = (
            f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"
            if here
            else f"http://localhost:{self.port}/metrics"
        )

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def require_client() -> None:
    """RunError, if the client of Prometheus is not installed."""
    if find_spec("prometheus_client") is None:
        raise RunError(
            "Metrics need the client of Prometheus, which is not installed.", fix="pip install 'strandline[metrics]'"
        )


def _not_served(error: OSError, host: str, port: int) -> RunError:
    if error.errno == errno.EADDRINUSE:
        return RunError(
            f"The port {port} for metrics is taken.", fix="Name another one, or --metrics-port 0 for one that is free."
        )
    return RunError(
        f"Metrics cannot be served at {host}:{port}: {error.strerror or error}.",
        fix="Name an address of this machine, and a port from 1024 on.",
    )

"""Metrics say what the journal says, under the names that the documents, the dashboard and the alert rules use."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from random import Random
from urllib.request import urlopen

import pytest

from strandline.errors import RunError
from strandline.model.time import Span
from strandline.operations.metrics import METRICS, Endpoint, Metrics
from tests.operations.journals import SECOND, World, journal

ROOT = Path(__file__).parents[2]


def observed(*parts: list[dict[str, object]]) -> Metrics:
    metrics = Metrics("shop", interval=Span.of("1s"), nodes=["orders", "totals"])
    for part in parts:
        for record in part:
            metrics.observe(record)
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"flow": "shop", **labels})


def names(metrics: Metrics) -> set[str]:
    return {sample.name for family in metrics.registry.collect() for sample in family.samples}


def test_metrics_say_what_the_journal_says() -> None:
    records = journal(60)
    metrics, last = observed(records), records[-1]
    assert value(metrics, "strandline_ticks_total") == len(records)
    assert value(metrics, "strandline_rows_total", node="orders") == sum(
        each["books"]["orders"]["rows"] for each in records
    )
    assert value(metrics, "strandline_late_rows_total", node="totals") == sum(
        each["books"]["totals"]["late"] for each in records
    )
    assert value(metrics, "strandline_state_rows", stage="totals") == last["state"]["totals"]["rows"]
    assert value(metrics, "strandline_watermark_bound_seconds", source="orders") == 20
    told = last["partitions"]["orders"]["1"]
    assert (
        value(metrics, "strandline_watermark_lag_seconds", source="orders", partition="1")
        == (last["now"] - told["watermark"]) / SECOND
    )
    took = sum(each["took"]["make"] + each["took"]["commit"] for each in records)
    assert value(metrics, "strandline_tick_duration_seconds_sum") == pytest.approx(took / SECOND)
    assert value(metrics, "strandline_tick_step_duration_seconds_count", step="read") == len(records)


def test_the_longest_wait_of_a_row_begins_with_the_tick_before() -> None:
    records = journal(10)
    latency = [each["took"]["latency"] for each in records]
    waited = records[-1]["now"] - records[0]["now"]  # together
    assert value(observed(records), "strandline_end_to_end_latency_seconds_sum") == pytest.approx(
        (sum(latency) + waited) / SECOND
    )


def test_every_metric_is_there_and_none_that_is_not_named() -> None:
    found = names(observed(journal(60)))
    for metric in METRICS:
        ending = "_bucket" if metric.kind == "histogram" else ""
        assert metric.name + ending in found
    bare = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in found} - {metric.name for metric in METRICS}
    assert {f"{name}_total" for name in bare} <= {metric.name for metric in METRICS}  # when a counter was made


def test_a_partition_that_is_idle_or_gone_lags_no_more() -> None:
    world = World(Random(1))
    first = journal(5, world=world)
    world.partitions["2"].idle = True
    metrics = observed(first, journal(5, world=world))
    assert value(metrics, "strandline_watermark_lag_seconds", source="orders", partition="2") is None
    assert value(metrics, "strandline_backlog", source="orders", partition="2") == 0
    del world.partitions["2"]
    metrics = observed(first, journal(5, world=world))
    assert value(metrics, "strandline_backlog", source="orders", partition="2") is None
    assert value(metrics, "strandline_backlog", source="orders", partition="1") == 0


def test_restarts_go_on_counting_where_another_process_began() -> None:
    world = World(Random(1), restarts=5)
    metrics = observed(journal(5, world=world))
    assert value(metrics, "strandline_restarts_total") == 5
    world.restarts, world.run = 6, "second"
    for record in journal(5, world=world):
        metrics.observe(record)
    assert value(metrics, "strandline_restarts_total") == 6


def test_catching_up_is_told_while_a_backlog_shrinks_and_not_after() -> None:
    world = World(Random(1))
    for partition in world.partitions.values():
        partition.end = 100 * 300
    assert value(observed(journal(40, world=world)), "strandline_catching_up") == 1
    world = World(Random(1))
    assert value(observed(journal(40, world=world)), "strandline_catching_up") == 0


def test_metrics_are_served_and_the_port_is_free_again_afterwards() -> None:
    with Endpoint(observed(journal(5)).registry, host="127.0.0.1", port=0) as endpoint:
        with urlopen(endpoint.url, timeout=10) as answer:
            text = answer.read().decode()
        with pytest.raises(RunError, match=f"The port {endpoint.port} for metrics is taken"):
            Endpoint(observed().registry, host="127.0.0.1", port=endpoint.port)
    assert 'strandline_state_rows{flow="shop",stage="known"}' in text
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", endpoint.port))


def test_a_host_that_is_not_ours_is_refused_with_a_fix() -> None:
    with pytest.raises(RunError, match=r"Metrics cannot be served at 203\.0\.113\.1"):
        Endpoint(observed().registry, host="203.0.113.1", port=0)


def test_a_missing_client_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.operations.metrics.find_spec", lambda name: None)
    with pytest.raises(RunError, match="not installed") as caught:
        Metrics("shop", interval=Span.of("1s"))
    assert caught.value.fix == "pip install 'strandline[metrics]'"

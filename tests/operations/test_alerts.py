"""Each alert rule fires on what it is for, and stays silent on what is normal: judged by Prometheus' own promtool."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline.operations.metrics import METRICS
from strandline.operations.monitoring import FILES, shipped, write_monitoring
from tests import servers

RULES = {rule["alert"]: rule for group in yaml.safe_load(shipped("alerts.yaml"))["groups"] for rule in group["rules"]}
DASHBOARD = json.loads(shipped("dashboard.json"))
NAMES = {metric.name + ending for metric in METRICS for ending in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Series, a value a minute, under which a rule fires `at` a time, and others under which it does not."""

    fires: Mapping[str, str]
    silent: Mapping[str, str]
    at: str = "20m"


def latency(name: str, fast: str, slow: str, limit: str = "1.1") -> dict[str, str]:
    """A histogram of which `fast` counts what took up to a limit, and `slow` everything."""
    return {f'{name}_bucket{{flow="f",le="{limit}"}}': fast, f'{name}_bucket{{flow="f",le="10"}}': slow, f'{name}_bucket{{flow="f",le="+Inf"}}': slow}  # fmt: skip


LAG = 'strandline_watermark_lag_seconds{flow="f",source="s",partition="%s"}'
LEFT = 'strandline_backlog{flow="f",source="s",partition="%s"}'
BOUND = {'strandline_watermark_bound_seconds{flow="f",source="s"}': "20x40"}
INTERVAL = {'strandline_batch_interval_seconds{flow="f"}': "1x1600"}
CALM, BUSY = {'strandline_catching_up{flow="f"}': "0x40"}, {'strandline_catching_up{flow="f"}': "1x40"}
OTHERS = {LAG % "0": "21x40", LAG % "1": "22x40"}  # one partition of three is amiss: neither sum nor mean show much
ROWS = {'strandline_rows_total{flow="f",node="n"}': "0+6000x1600"}


def rare(metric: str, *, then: str) -> dict[str, str]:
    """One row in a thousand for a day; then so many more a minute."""
    return {f'{metric}{{flow="f",node="n"}}': f"0+6x1440 {then}", **ROWS}


CASES = {
    "StrandlineWatermarkLagGrows": [
        Case({LAG % "2": "21x8 21+60x40", **OTHERS, **CALM}, {LAG % "2": "20+0x20 25x20", **OTHERS, **CALM}),
        Case({LAG % "2": "21x8 21+60x40", **OTHERS, **CALM}, {LAG % "2": "21x8 21+60x40", **OTHERS, **BUSY}),
    ],
    "StrandlineBacklogGrows": [
        Case({LEFT % "2": "0x5 10+500x40", LEFT % "0": "0x40", **CALM}, {LEFT % "2": "0 900 0 0 900 0x40", LEFT % "0": "0x40", **CALM}),
        Case({LEFT % "2": "0x5 10+500x40", LEFT % "0": "90000-600x40", **CALM}, {LEFT % "2": "0x5 10+500x40", **BUSY}),
    ],
    "StrandlineWatermarkFarBehind": [
        Case({LAG % "2": "41x40", **OTHERS, **BOUND, **CALM}, {LAG % "2": "39x40", **OTHERS, **BOUND, **CALM}),
        Case({LAG % "2": "41x40", **OTHERS, **BOUND, **CALM}, {LAG % "2": "600x40", **OTHERS, **BOUND, **BUSY}),
    ],
    "StrandlineTicksTakeTooLong": [
        Case(
            {**latency("strandline_tick_duration_seconds", "0+56x40", "0+60x40"), **INTERVAL, **CALM},
            {**latency("strandline_tick_duration_seconds", "0+58x40", "0+60x40"), **INTERVAL, **CALM},
        ),
        Case(
            {**latency("strandline_tick_duration_seconds", "0+56x40", "0+60x40"), **INTERVAL, **CALM},
            {**latency("strandline_tick_duration_seconds", "0+56x40", "0+60x40"), **INTERVAL, **BUSY},
        ),
    ],
    "StrandlineResultsComeLate": [
        # One row in ten comes late: the mean is not even doubled.
        Case(
            latency("strandline_end_to_end_latency_seconds", "0+60x1440 86454+54x60", "0+60x1500"),
            latency("strandline_end_to_end_latency_seconds", "0+60x1440 86458+58x60", "0+60x1500"),
            at="1480m",
        )
    ],
    "StrandlineStateGrows": [
        Case(
            {'strandline_state_bytes{flow="f",stage="n"}': "100000000+5000x1700"},  # 7.2 % a day
            {'strandline_state_bytes{flow="f",stage="n"}': "100000000+3000x1700"},  # 4.3 %
            at="1690m",
        ),
        Case(
            {'strandline_state_bytes{flow="f",stage="n"}': "100000000+5000x1700"},
            {'strandline_state_bytes{flow="f",stage="n"}': "1000+5x1700"},
            at="1690m",
        ),
    ],
    "StrandlineLateRows": [
        Case(rare("strandline_late_rows_total", then="8660+20x40"), rare("strandline_late_rows_total", then="8646+6x40"), at="1460m"),
        Case({'strandline_late_rows_total{flow="f",node="n"}': "0x1440 3x40", **ROWS}, {'strandline_late_rows_total{flow="f",node="n"}': "0x1500", **ROWS}, at="1442m"),
    ],
    "StrandlineRejectedRows": [
        Case(rare("strandline_rejected_rows_total", then="8660+20x40"), rare("strandline_rejected_rows_total", then="8646+6x40"), at="1460m"),
    ],
    "StrandlineRestarted": [
        Case({'strandline_restarts_total{flow="f",instance="old"}': "5x5 stale", 'strandline_restarts_total{flow="f",instance="new"}': "_x6 6x40"}, {'strandline_restarts_total{flow="f"}': "5x40"}),
    ],
    "StrandlineNoTicks": [
        Case({'strandline_last_tick_timestamp_seconds{flow="f"}': "0+60x5 stale", **INTERVAL}, {'strandline_last_tick_timestamp_seconds{flow="f"}': "0+60x40", **INTERVAL}),
    ],
}  # fmt: skip


def question(name: str, series: Mapping[str, str], at: str, *, fires: bool) -> dict[str, Any]:
    """A test of promtool's: whether the rule fires at a time."""
    asked = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    return {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [{"expr": asked, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}],
    }  # fmt: skip


def judged(folder: Path, name: str, *tests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What promtool says of one rule: with the others beside it, it would take ten times as long."""
    promtool = servers.promtool()
    (folder / "rule.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": name, "rules": [RULES[name]]}]}), encoding="utf-8"
    )
    told = {"rule_files": ["rule.yaml"], "evaluation_interval": "1m", "tests": list(tests)}
    (folder / "test.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return subprocess.run(
        [promtool, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )


def by_how_long(name: str) -> Any:
    """The name of a rule, slow if its cases are of a day: promtool asks for each minute."""
    return pytest.param(name, marks=[pytest.mark.slow] if any(case.at != "20m" for case in CASES[name]) else [])


@pytest.mark.parametrize("name", [by_how_long(name) for name in RULES])
def test_the_rule_fires_on_what_it_is_for_and_is_silent_on_what_is_normal(name: str, tmp_path: Path) -> None:
    tests = [question(name, series, case.at, fires=fires) for case in CASES[name] for series, fires in ((case.fires, True), (case.silent, False))]  # fmt: skip
    answer = judged(tmp_path, name, *tests)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_a_rule_that_should_fire_and_does_not_is_found(tmp_path: Path) -> None:
    name = "StrandlineWatermarkFarBehind"
    case = CASES[name][0]
    answer = judged(tmp_path, name, question(name, case.silent, case.at, fires=True))
    assert answer.returncode != 0


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES.values())
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query")


def test_rules_and_dashboard_name_no_metric_that_is_not_there_and_the_dashboard_leaves_none_out() -> None:
    named = {name for expression in expressions() for name in re.findall(r"\bstrandline_\w+", expression)}
    assert named - NAMES == set()
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert {metric.name for metric in METRICS} - shown == set()


def test_rules_and_dashboard_name_no_label_that_their_metrics_do_not_have() -> None:
    known = {"flow", "le", "job", "instance", *(label for metric in METRICS for label in metric.labels)}
    grouped = [label for each in expressions() for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", each) for label in labels.split(",")]  # fmt: skip
    asked = [label for each in expressions() for label in re.findall(r"[{,]\s*(\w+)\s*=~?", each)]
    assert {label.strip() for label in [*grouped, *asked]} - known == set()


def test_panels_lie_beside_each_other_and_have_a_title() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        assert panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_files_are_written_out(tmp_path: Path) -> None:
    assert [path.name for path in write_monitoring(tmp_path / "watch")] == list(FILES)
    assert json.loads((tmp_path / "watch" / "dashboard.json").read_text(encoding="utf-8")) == DASHBOARD

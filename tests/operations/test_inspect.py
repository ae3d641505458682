"""What a person sees who looks into the state of a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.errors import StateError
from strandline.kernel.stateful import plan_of
from strandline.model.nodes import Stateful, lineage
from strandline.model.time import Instant
from strandline.operations.inspect import (
    Table,
    Wanted,
    fits,
    manifest_of,
    rows_of,
    sizes_of,
    stages,
)
from strandline.store.storage import Storage, storage_at
from tests.kept import keep
from tests.states.windows import tumbling
from tests.states.write import CASES


def dicts(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return keep(tmp_path, tumbling())


def look(storage: Storage, *, with_plan: bool = True, **wanted: Any) -> list[dict[str, Any]]:
    stage = tumbling().stage
    plan = plan_of(stage.flow, stage.node) if with_plan else None
    return dicts(rows_of(storage, manifest_of(storage), "stage", Wanted(**wanted), plan))


QUICK = ("table", "process", "interval_join", "refined_hopping")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_every_kind_of_stage_can_be_looked_at(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    storage = keep(tmp_path, case)
    manifest = manifest_of(storage)
    for node in (each for each in lineage(case.stage.node) if isinstance(each, Stateful)):
        for plan in (plan_of(case.stage.flow, node), None):
            shown = rows_of(storage, manifest, node.name, Wanted(limit=1000), plan)
            assert shown.rows
            assert not [each for each in shown.columns if each.startswith(("hash", "k.", "a.", "__"))]
        sizes = dicts(sizes_of(storage, manifest, node.name, "bucket", Wanted(limit=64)))
        assert sum(each["rows"] for each in sizes) == manifest.stages[node.name].rows


def test_with_the_flow_a_window_is_one_row_with_its_aggregates(storage: Storage) -> None:
    found = look(storage, key={"user": "bob", "country": None}, window=(NOON, NOON))
    assert [(each["window_start"], each["count"], each["least"]) for each in found] == [
        ("2026-01-01T12:00:00Z", 2, "b")
    ]


def test_without_the_flow_the_state_itself_says_what_its_built_in_aggregates_come_to(storage: Storage) -> None:
    (kept,), (shown,) = (look(storage, with_plan=known, key={"user": "eve"}) for known in (False, True))
    own = {"product"}  # only its class knows what it comes to
    aggregates = {name for name, _ in tumbling().stage.node.aggregates} - own
    assert {"mean", "variance", "quantiles", "recent"} <= aggregates
    assert {name: kept.get(name) for name in aggregates} == {name: shown.get(name) for name in aggregates}


NOON = Instant.of("2026-01-01T12:00:00Z")


@pytest.mark.parametrize(
    "key", [{"user": "bob"}, {"country": "de"}, {"user": "ann", "country": "de"}, {"user": "nobody", "country": "de"}]
)
def test_a_key_is_found_by_its_hash_as_by_looking_at_all(storage: Storage, key: dict[str, str | None]) -> None:
    every = look(storage, with_plan=False, raw=True, limit=1000)
    mine = [each for each in every if all(each[f"k.{name}"] == value for name, value in key.items())]
    assert look(storage, with_plan=False, raw=True, limit=1000, key=key) == mine


def test_windows_that_meet_a_stretch_of_time_are_shown(storage: Storage) -> None:
    later = Instant.of("2026-01-01T12:01:00Z")
    assert {each["window_start"] for each in look(storage, window=(later, later))} <= {"2026-01-01T12:01:00Z"}


def test_no_more_is_shown_than_was_asked_for_and_it_is_said(storage: Storage) -> None:
    shown = rows_of(storage, manifest_of(storage), "stage", Wanted(limit=1))
    assert (len(shown.rows), shown.more) == (1, True)


@pytest.mark.parametrize(("by", "columns"), [("key", ("user", "country")), ("window", ("window_start", "window_end"))])
def test_sizes_are_told_by_key_and_by_window(storage: Storage, by: Any, columns: tuple[str, ...]) -> None:
    found = sizes_of(storage, manifest_of(storage), "stage", by, Wanted())
    assert found.columns == (*columns, "rows", "bytes", "share")
    assert sum(each["rows"] for each in dicts(found)) == manifest_of(storage).stages["stage"].rows


def test_the_stages_are_listed(storage: Storage) -> None:
    (only,) = dicts(stages(manifest_of(storage)))
    assert (only["stage"], only["kind"], only["rows"] > 0) == ("stage", "Tumbling windows", True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda storage: manifest_of(storage, tick=7), "Tick 7 is not kept"),
        (lambda storage: manifest_of(storage_at("/nowhere/at/all")), "There is no state in"),
        (lambda storage: rows_of(storage, manifest_of(storage), "stag", Wanted()), "Did you mean 'stage'"),
        (lambda storage: look(storage, key={"usr": "bob"}), "Did you mean 'user'"),
    ],
)
def test_what_is_not_there_is_said(storage: Storage, wrong: Any, said: str) -> None:
    with pytest.raises(StateError, match=said):
        wrong(storage)


def test_a_flow_that_did_not_write_the_state_is_refused(storage: Storage) -> None:
    other = CASES["sessions"]().stage
    plan = plan_of(other.flow, other.node)
    assert not fits(plan, manifest_of(storage).stages["stage"])
    with pytest.raises(StateError, match="no flow: rows are then shown as they are kept"):
        rows_of(storage, manifest_of(storage), "stage", Wanted(), plan)

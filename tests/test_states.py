"""State that was stored by a version of Strandline is taken up by this one."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import strandline as sl
from strandline.errors import StateError
from strandline.kernel.codec import encode
from strandline.kernel.due import ENTRY, DueIndex
from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.plan import Plan, plan_stage
from strandline.kernel.segments import Segment, cut_blocks
from strandline.kernel.state import State, from_bytes, to_bytes
from strandline.testing import play
from tests.states.case import Case, Piece, said
from tests.states.write import CASES, HERE, expectation_file, state_file


def stored(name: str) -> tuple[Case, Piece, dict[str, Any]]:
    """A case that stands where its files say."""
    case = CASES[name]()
    piece = Piece(case)
    expected = json.loads(expectation_file(name).read_text(encoding="utf-8"))
    piece.restore(expected["place"], {stage: state_file(name, stage).read_bytes() for stage in piece.stages})
    return case, piece, expected["shows"]


@pytest.mark.parametrize("name", CASES)
def test_the_tick_after_a_stored_state_shows_what_it_showed_then(name: str) -> None:
    case, piece, shows = stored(name)
    assert piece.shown(case.after) == shows


@pytest.mark.parametrize("name", CASES)
def test_a_stored_state_is_encoded_to_the_same_bytes(name: str) -> None:
    _, piece, _ = stored(name)
    for stage, kernel in piece.stages.items():
        assert kernel.encode() == state_file(name, stage).read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_what_was_stored_is_what_the_oracle_shows(name: str) -> None:
    case, _, shows = stored(name)
    steps = [*case.before, case.after]
    *_, oracle = play(case.alike or case.stage, steps, runner="oracle")
    assert shows["panes"]
    assert json.loads(json.dumps(oracle, default=said)) == shows["panes"]


def test_every_file_belongs_to_a_case() -> None:
    cases = {name: CASES[name]() for name in CASES}
    known = {state_file(name, stage) for name, case in cases.items() for stage in Piece(case).stages}
    assert {*HERE.glob("*.state")} == known
    assert {*HERE.glob("*.json")} == {*map(expectation_file, cases)}


def test_the_state_of_another_stage_is_refused() -> None:
    _, piece, _ = stored("sessions")
    with pytest.raises(StateError, match="not that of stage"):
        piece.stages["stage"].restore(state_file("hopping", "stage").read_bytes())


def counted(window: sl.Window | None = None, *, name: str = "stage", columns: str = "user string, n int, at timestamp",
            aggregate: sl.AnyAggregate | None = None, **options: Any) -> Plan:  # fmt: skip
    """A stage whose state has the same columns whatever its options are."""
    source = sl.Flow("counted").source("events", sl.Rows(schema=columns), time="at")
    options = {"trigger": sl.AfterWatermark(early=sl.AfterCount(2)), "lateness": "1m", **options}
    stage = source.key_by("user").window(window or sl.Tumbling("1m"), **options)
    return plan_stage(stage.aggregate(name, total=aggregate or sl.Sum("n")).node)


OTHERS: dict[str, dict[str, Any]] = {
    "window: Tumbling.size=1m. there, Tumbling.size=1h. here": {"window": sl.Tumbling("1h")},
    "window: .* offset=1s": {"window": sl.Tumbling("1m", offset="1s")},
    "lateness: 1m there, 2m here": {"lateness": "2m"},
    "mode: accumulating there, discarding here": {"mode": "discarding"},
    "on_time: if_any there, always here": {"on_time": "always"},
    "trigger: .*count=2.*count=3": {"trigger": sl.AfterWatermark(early=sl.AfterCount(3))},
    "aggregate total: .*where": {"aggregate": sl.Sum("n", where="n > 2")},
    "aggregate total: .*over .int. there, .*over .smallint. here": {"columns": "user string, n smallint, at timestamp"},
}


@pytest.mark.parametrize("what", OTHERS)
def test_state_with_the_same_columns_but_another_meaning_is_refused(what: str) -> None:
    mine, other = counted(mode="accumulating"), counted(**{"mode": "accumulating", **OTHERS[what]})
    assert mine.state_schema == other.state_schema
    with pytest.raises(StateError, match=f"not that of stage 'stage', or the stage was changed: {what}"):
        from_bytes(other, to_bytes(mine, State()))


def test_a_stage_may_be_described_again_and_named_otherwise() -> None:
    assert from_bytes(counted(name="other"), to_bytes(counted(), State())) == State()
    assert fingerprint(counted(allow_loss=True)) == fingerprint(counted())


def test_an_index_of_what_is_due_with_other_columns_is_refused() -> None:
    plan = counted()
    entries = pl.DataFrame({name: [1] for name in ENTRY}, schema={**ENTRY, "window_end": pl.Int32})
    run = Segment(0, 0, 0, cut_blocks(entries))
    with pytest.raises(StateError, match="not those of an index of what is due"):
        from_bytes(plan, encode([run], kind="state", about=fingerprint(plan)))
    with pytest.raises(StateError, match="not those of an index of what is due"):
        DueIndex.from_bytes(encode([run], kind="due"))

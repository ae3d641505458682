"""State that was stored by a version of Strandline is taken up by this one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.errors import StateError
from strandline.testing import play
from tests.states.write import CASES, HERE, Case, Piece, expectation_file, said, state_file


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
    *_, oracle = play(case.stage, steps, runner="oracle")
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

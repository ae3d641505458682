"""Every decision about meaning is held in place: its transcript passes, and fails under the other decision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline.errors import StrandlineError
from strandline.testing.judging import judge
from strandline.testing.transcripts import Transcript, load_transcript
from tests.mutants import judging, operators, remembering, source, triggers, values, windows
from tests.own import OWN

HERE = Path(__file__).parent
DECISIONS: Mapping[str, Any] = yaml.safe_load((HERE / "decisions.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(case["transcript"], case["mutant"], runner, id=f"{row}-{case['mutant']}-{runner}")
    for row, cases in DECISIONS["decisions"].items()
    for case in cases
    for runner in case["runners"]
]


def _transcript(name: str) -> Transcript:
    return load_transcript(HERE / "transcripts" / f"{name.replace(' ', '_')}.yaml", extra=OWN)


def _mutants() -> dict[str, Callable[[pytest.MonkeyPatch], None]]:
    return {
        name: each
        for module in (judging, operators, remembering, source, triggers, values, windows)
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__ and not name.startswith("_")
    }


def _fails(transcript: Transcript, runner: str) -> bool:
    """Whether it shows something else, or is refused. Any other exception is a broken mutant, and is not caught."""
    try:
        return judge(transcript, runner=runner) != []
    except StrandlineError:
        return True


@pytest.mark.parametrize(("name", "mutant", "runner"), CASES)
def test_the_transcript_fails_under_the_other_decision(
    name: str, mutant: str, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(_transcript(name), runner=runner) == []
    _mutants()[mutant](monkeypatch)
    assert _fails(_transcript(name), runner)


def test_every_question_of_the_table_is_decided_or_comes_later_with_the_reason() -> None:
    decided, later = set(DECISIONS["decisions"]), set(DECISIONS["later"])
    assert decided | later == set(DECISIONS["table"])
    assert not decided & later
    assert all(DECISIONS["later"].values())


def test_every_mutant_is_used() -> None:
    used = {case["mutant"] for cases in DECISIONS["decisions"].values() for case in cases}
    assert used == set(_mutants())

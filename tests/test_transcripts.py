"""Every transcript holds: with each runner, however the work is spread, and with a crash after every tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.testing.judging import judge
from strandline.testing.transcripts import load_transcript
from tests.own import OWN

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = {path: load_transcript(path, extra=OWN) for path in sorted(FOLDER.rglob("*.yaml"))}
REFUSED = [path for path, transcript in TRANSCRIPTS.items() if transcript.check_fails is not None]
PLAYED = [path for path in TRANSCRIPTS if path not in REFUSED]

# Of each runner the hardest way to play is part of every run; the others are left to the longer lane.
SPREADS: dict[str, dict[str, Any]] = {
    "oracle-crashing": {"runner": "oracle", "crash": True},
    "kernel-3-tasks-crashing": {"runner": "kernel", "buckets": 7, "tasks": 3, "crash": True},
}
MORE_SPREADS: dict[str, dict[str, Any]] = {
    "oracle": {"runner": "oracle"},
    "kernel": {"runner": "kernel"},
    "kernel-crashing": {"runner": "kernel", "crash": True},
    "kernel-1-bucket": {"runner": "kernel", "buckets": 1},
    "kernel-5-tasks": {"runner": "kernel", "buckets": 64, "tasks": 5},
}


def _name(path: Path) -> str:
    return str(path.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("path", PLAYED, ids=_name)
def test_the_transcript_holds(path: Path, spread: str) -> None:
    assert judge(TRANSCRIPTS[path], **SPREADS[spread]) == []


@pytest.mark.slow
@pytest.mark.parametrize("spread", MORE_SPREADS)
@pytest.mark.parametrize("path", PLAYED, ids=_name)
def test_the_transcript_holds_however_it_is_played(path: Path, spread: str) -> None:
    assert judge(TRANSCRIPTS[path], **MORE_SPREADS[spread]) == []


@pytest.mark.parametrize("path", REFUSED, ids=_name)
def test_the_flow_is_refused_in_these_words(path: Path) -> None:
    assert judge(TRANSCRIPTS[path]) == []


def test_every_transcript_says_its_own_name_and_what_it_shows_in_one_sentence() -> None:
    assert [_name(path) for path, each in TRANSCRIPTS.items() if each.name.replace(" ", "_") != path.stem] == []
    assert [_name(path) for path, each in TRANSCRIPTS.items() if not each.shows.endswith(".")] == []


def test_what_must_fail_and_what_is_refused_stand_in_folders_of_their_own() -> None:
    must_fail = {path for path, each in TRANSCRIPTS.items() if each.must_fail}
    assert must_fail == {path for path in TRANSCRIPTS if path.parent.name == "must_fail"}
    assert {*REFUSED} == {path for path in TRANSCRIPTS if path.parent.name == "refused"}

"""Every transcript holds: with each runner, however the work is spread, and with a crash after every tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.testing.judging import judge
from strandline.testing.transcripts import load_transcript
from tests.own import OWN

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.rglob("*.yaml"))
SPREADS: dict[str, dict[str, Any]] = {
    "oracle": {"runner": "oracle"},
    "oracle-crashing": {"runner": "oracle", "crash": True},
    "kernel": {"runner": "kernel"},
    "kernel-crashing": {"runner": "kernel", "crash": True},
    "kernel-1-bucket": {"runner": "kernel", "buckets": 1},
    "kernel-3-tasks": {"runner": "kernel", "buckets": 7, "tasks": 3},
    "kernel-3-tasks-crashing": {"runner": "kernel", "buckets": 7, "tasks": 3, "crash": True},
}


def _name(path: Path) -> str:
    return str(path.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("path", FILES, ids=_name)
def test_the_transcript_holds(path: Path, spread: str) -> None:
    assert judge(load_transcript(path, extra=OWN), **SPREADS[spread]) == []


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_the_transcript_says_its_own_name_and_what_it_shows(path: Path) -> None:
    transcript = load_transcript(path, extra=OWN)
    assert transcript.name.replace(" ", "_") == path.stem
    assert transcript.shows.endswith(".")


def test_what_must_fail_stands_in_a_folder_of_its_own() -> None:
    assert [
        _name(path) for path in FILES if bool(load_transcript(path, extra=OWN).must_fail) != (path.parent.name == "must_fail")
    ] == []

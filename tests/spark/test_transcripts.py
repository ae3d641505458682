"""The transcripts hold on Spark: the same files, played by the engine with its state files, manifests and sinks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from strandline.testing.judging import judge
from tests.test_transcripts import FOLDER, PLAYED, TRANSCRIPTS

pytestmark = pytest.mark.slow

_TRAITS: Final = re.compile(
    r"\b[A-Z]\w+(?=\()|\b(?:accumulating|discarding|retracting|on_time|timestamp|coalesce|allow_loss|lateness|policy|side"
    r"|where|select|with_column|crash|replaced|max_future|idle_after)\b"
)


def traits(path: Path) -> set[str]:
    """What a transcript is about: its folder, and the windows, triggers, aggregates, policies and options it names."""
    return {path.parent.name, *_TRAITS.findall(path.read_text())}


def covering(paths: list[Path]) -> list[Path]:
    """Those that bring something which none before them had: about a quarter, in which everything occurs."""
    seen: set[str] = set()
    chosen = []
    for path in paths:
        if traits(path) - seen:
            chosen.append(path)
            seen |= traits(path)
    return chosen


COVERING: Final = covering(PLAYED)
OTHERS: Final = [path for path in PLAYED if path not in COVERING]


def _name(path: Path) -> str:
    return str(path.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("path", COVERING, ids=_name)
def test_the_transcript_holds_on_spark(path: Path, spark: SparkSession) -> None:
    assert judge(TRANSCRIPTS[path], runner="spark", spark=spark) == []


@pytest.mark.prove
@pytest.mark.parametrize("path", OTHERS, ids=_name)
def test_the_others_hold_on_spark_too(path: Path, spark: SparkSession) -> None:
    assert judge(TRANSCRIPTS[path], runner="spark", spark=spark) == []


@pytest.mark.prove
@pytest.mark.parametrize("path", COVERING, ids=_name)
def test_the_transcript_holds_when_every_tick_is_made_twice_by_two_tasks(path: Path, spark: SparkSession) -> None:
    assert judge(TRANSCRIPTS[path], runner="spark", spark=spark, buckets=7, tasks=2, crash=True) == []

"""The program in Spark's own words that docs/coming-from.md shows is one that Spark runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.commands import ROOT, blocks

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "coming-from.md"


def test_the_program_in_sparks_words_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"user": "ann", "amount": 5.0, "at": f"2026-01-01T12:0{minute}:00Z"} for minute in range(3)]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    orders = spark.readStream.schema("user string, amount double, at timestamp").json(str(tmp_path / "in"))
    (program,) = [each for each in blocks(PAGE.read_text(encoding="utf-8")) if "pyspark" in each.body]
    namespace: dict[str, Any] = {"orders": orders}
    exec(compile("\n" * (program.line - 1) + program.body, str(PAGE), "exec"), namespace)
    query = namespace["query"]
    try:
        query.processAllAvailable()
        assert sum(progress["numInputRows"] for progress in query.recentProgress) == len(rows)
    finally:
        query.stop()

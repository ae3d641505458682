"""Mistakes that a run finds, each as docs/mistakes-of-runs.md shows it: with the file and line of the user's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.generate import HERE
from docs.mistakes import section
from tests.mistakes.mistake import Mistake
from tests.mistakes.runs import IN_A_RUN

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mistake", IN_A_RUN, ids=lambda mistake: mistake.title)
def test_a_run_tells_a_mistake_with_its_fix_as_the_page_shows_it(
    mistake: Mistake, spark: SparkSession, tmp_path: Path
) -> None:
    told = mistake.made_in(tmp_path)
    assert told.code == mistake.code
    assert mistake.says in told.said
    assert "\n  fix: " in told.said
    assert "Traceback" not in told.said
    page = (HERE / "mistakes-of-runs.md").read_text(encoding="utf-8")
    assert "\n".join(section(mistake, told)) in page, "run `make docs` and look at what changed"

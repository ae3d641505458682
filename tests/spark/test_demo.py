"""The demonstration runs on Spark, is killed, and all that it claims in the end holds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from strandline.demo import crash

pytestmark = pytest.mark.slow


def test_the_flow_that_is_killed_leaves_the_table_of_one_that_was_not() -> None:
    console = Console(file=io.StringIO(), width=100, highlight=False)
    assert crash.show(console)
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert (said.count("✓"), said.count("✗")) == (5, 1)  # the one that is crossed out is the process
    assert "The state is at tick 5: committed. The tables are at tick 4: they miss 2,4" in said
    for timing in ("early", "on time", "late", "taken back"):
        assert timing in said
    _, made, once, twice, missing, counted, _ = next(
        line for line in said.splitlines() if line.startswith("  all ")
    ).split()
    assert (made, once, twice, missing) == (counted, counted, "0", "0")

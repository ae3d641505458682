"""How many examples a law gets in this run: the CI lane is quick and stable, the long lane draws ten times as many."""

from __future__ import annotations

import os
from typing import Final

LANE: Final = os.environ.get("STRANDLINE_LANE", "ci")
FACTOR: Final = {"ci": 1, "prove": 10}[LANE]


def examples(in_ci: int) -> int:
    """The number for `@settings(max_examples=examples(30))`: 30 in CI, 300 in `make prove`."""
    return in_ci * FACTOR

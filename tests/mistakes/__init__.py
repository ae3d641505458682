"""Mistakes that users make, and what they are told: tests make each of them, and docs/mistakes.md shows them."""

from __future__ import annotations

from typing import Final

from tests.mistakes.commands import IN_FILES, IN_THE_STATE, ON_THE_LINE
from tests.mistakes.flows import IN_A_FLOW
from tests.mistakes.mistake import Mistake

BEFORE_A_RUN: Final[dict[str, tuple[Mistake, ...]]] = {
    "In a flow": IN_A_FLOW,
    "In its file": IN_FILES,
    "On the command line": ON_THE_LINE,
    "In the state, and on the machine": IN_THE_STATE,
}
"""Those that are found without Spark."""

"""Write the stored states of this version: `python -m tests.states.write`.

State bytes are a public format. For each case a flow is played up to a point, and left are: the state of each of its
stages (v1-<case>-<stage>.state), and what the next tick must show (v1-<case>.json). `tests/test_states.py` takes up the
files and makes that tick. Files of a released version are never written again: a new format gets new names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.states import operators, windows
from tests.states.case import Piece

HERE: Final = Path(__file__).parent
VERSION: Final = "v1"
CASES: Final = {make.__name__: make for make in (*windows.CASES, *operators.CASES)}


def state_file(case: str, stage: str) -> Path:
    """Where the state of a stage is."""
    return HERE / f"{VERSION}-{case}-{stage}.state"


def expectation_file(case: str) -> Path:
    """Where it is said what the next tick shows."""
    return HERE / f"{VERSION}-{case}.json"


def main() -> None:
    """Write all of them."""
    for name, make in CASES.items():
        case = make()
        case.stage.flow.check()
        piece = Piece(case)
        for step in case.before:
            piece.tick(step)
        for stage, kernel in piece.stages.items():
            state_file(name, stage).write_bytes(kernel.encode())
        expected = {"place": piece.place(), "shows": piece.shown(case.after)}
        expectation_file(name).write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(expected['shows']['panes'])} panes, {len(expected['shows']['late'])} late")


if __name__ == "__main__":
    main()

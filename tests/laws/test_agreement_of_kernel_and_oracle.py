"""Kernel = oracle: the table of window kind x outermost trigger x mode x lateness, a test for each kind and mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.testing.strategies import MODES
from tests.laws.agreement import RARE, Agreement, disagreements


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", RARE)
def test_kernel_and_oracle_agree(window: str, mode: str, record_property: Callable[[str, object], None]) -> None:
    found = disagreements(Agreement(window, mode), record_property)
    assert not found, "\n\n".join(found)  # each whole: it names the example, and how to draw it again

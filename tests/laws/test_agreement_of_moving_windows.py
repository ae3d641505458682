"""Kernel = oracle, second half of the table. (Two files, so that two workers share the time.)"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.laws.agreement import Agreement, disagreements


@pytest.mark.slow
@pytest.mark.parametrize("window", ["session", "global", "same or custom"])
def test_kernel_and_oracle_agree(window: str, record_property: Callable[[str, object], None]) -> None:
    assert disagreements(Agreement(window), record_property) == []

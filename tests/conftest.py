"""What every test shares: Hypothesis profiles, and tables shown at the end of the run."""

from __future__ import annotations

import os

# Tests run side by side, and their frames are small: more threads each would only wait for one another.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.lanes import LANE, examples

# Time is shared with other jobs in CI, so neither a deadline nor a slow draw is a fault.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", max_examples=examples(100), derandomize=True, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "prove", max_examples=examples(100), deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile(LANE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long goes first, and the short tests fill the gaps at the end; a file that needs Spark stays together."""
    items.sort(key=lambda item: (item.path.parent.name != "spark", item.path.parent.name != "laws"))
    for item in items:
        if item.path.parent.name == "spark":
            item.add_marker(pytest.mark.xdist_group(item.path.name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests left with `record_property("table", text)`: it survives xdist, where print() does not."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, text in report.user_properties:
                    if name == "table":
                        terminalreporter.section(report.nodeid)
                        terminalreporter.write_line(str(text))

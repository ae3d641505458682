"""What every test shares: Hypothesis profiles, real servers, and tables shown as they come."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

# Tests run side by side, and their frames are small: more threads each would only wait for one another.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests import servers
from tests.lanes import LANE, examples

if TYPE_CHECKING:
    from tests.sources.kafka.broker import Broker

# Time is shared with other jobs in CI, so neither a deadline nor a slow draw is a fault.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", max_examples=examples(100), derandomize=True, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "prove", max_examples=examples(100), deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile(LANE)


def pytest_configure(config: pytest.Config) -> None:
    """The servers that tests start, and what is told, belong to the run, not to one of its workers."""
    if not hasattr(config, "workerinput"):
        servers.begin()
        config.pluginmanager.register(Tables(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """No server outlives the run."""
    if not hasattr(config, "workerinput"):
        servers.end()


@pytest.fixture(scope="session")
def kafka() -> str:
    """Where a real broker is: host:port. Topics and groups get names of their own."""
    return servers.kafka()


@pytest.fixture(scope="session")
def broker(kafka: str) -> Iterator[Broker]:
    """What tests do to the broker; the topics that they make go with the run's worker."""
    from tests.sources.kafka.broker import Broker

    found = Broker(kafka)
    yield found
    for answer in found.admin.delete_topics(found.made).values() if found.made else ():
        answer.exception(30)  # a test may have deleted its own


@pytest.fixture(scope="session")
def postgres() -> str:
    """The url of a real PostgreSQL. Tables get names, or schemas, of their own."""
    return servers.postgres()


@pytest.fixture(scope="session")
def redis() -> str:
    """The url of a real Redis. Keys get prefixes of their own."""
    return servers.redis()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long goes first, and the short tests fill the gaps at the end.

    What needs a broker is slow: to start one takes seconds, and a JVM.
    """
    items.sort(key=lambda item: (item.path.parent.name != "spark", item.path.parent.name != "laws"))
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Laws make millions of small things that live for an instant: to look through all modules for them took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


class Tables:
    """Prints what tests leave with `record_property("table", text)`: it survives xdist, where print() does not.

    As each comes, not in the end: a run of hours that is broken off has told what it found until then.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        for name, text in report.user_properties if report.when == "call" and terminal else ():
            if name == "table":
                terminal.ensure_newline()
                terminal.write_line(f"{report.nodeid}: {report.outcome}")
                terminal.write_line(str(text))

"""One session of Spark for all tests that need it: starting one takes many seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strandline.spark.session import session


def pytest_configure(config: pytest.Config) -> None:
    """PySpark warns of a pandas that it uses nowhere here, and leaves sockets to the collector."""
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning")
    config.addinivalue_line("filterwarnings", "ignore:unclosed.*socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores, quiet."""
    made = session(name="tests", master="local[2,4]")
    yield made
    made.stop()

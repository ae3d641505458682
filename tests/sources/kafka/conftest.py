"""The broker, once for all tests of the source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources.kafka.broker import Broker


@pytest.fixture(scope="session")
def broker(kafka: str) -> Iterator[Broker]:
    found = Broker(kafka)
    yield found
    if found.made:
        for answer in found.admin.delete_topics(found.made).values():
            answer.exception(30)  # a test may have deleted its own

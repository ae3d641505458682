"""Topics for the tests of the Kafka sink."""

from __future__ import annotations

import uuid

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def new_topic(servers: str, partitions: int = 3, **config: str) -> str:
    """A topic of the test's own."""
    name = f"sink-{uuid.uuid4().hex[:10]}"
    new = NewTopic(name, partitions, 1, config={each.replace("_", "."): value for each, value in config.items()})
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([new])[name].result()
    return name

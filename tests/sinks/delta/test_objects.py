"""Delta tables in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from strandline.model.secrets import Secret
from strandline.sinks.contract import Target
from strandline.sinks.delta.description import DeltaSink
from tests.sinks.delivering import CHANGES, TARGET, delivery
from tests.sinks.delta.objects import Elsewhere, serving_elsewhere
from tests.sinks.delta.reading import sorted_rows
from tests.store.serving import BUCKET

pytestmark = pytest.mark.slow  # a server is started for each
URL = f"s3://{BUCKET}/table"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    monkeypatch.setenv("S3_KEY", "testing")
    with serving_elsewhere() as server:
        yield server


def options(server: Elsewhere) -> dict[str, object]:
    return {
        "aws_endpoint": f"http://127.0.0.1:{server.port}", "aws_access_key_id": "testing",
        "aws_secret_access_key": Secret.env("S3_KEY"), "aws_region": "us-east-1", "aws_allow_http": True,
    }  # fmt: skip


def found(server: Elsewhere) -> list[tuple[object, ...]]:
    plain = {
        name: "testing" if isinstance(value, Secret) else str(value).lower() for name, value in options(server).items()
    }
    table = DeltaTable(URL, storage_options=plain)
    return sorted_rows(table)


@pytest.mark.parametrize("target", [TARGET, CHANGES], ids=["append", "upsert"])
def test_a_table_in_a_bucket_is_written_once(server: Elsewhere, target: Target) -> None:
    op = () if target is TARGET else ("upsert",)
    for number in (1, 2):
        publisher = DeltaSink(URL, options=options(server)).prepare(target)
        after = number - 1 or None
        assert publisher.publish(replace(delivery(target, number, (f"k{number}", number, *op)), after=after)).rows == 1
        assert publisher.publish(delivery(target, number, (f"k{number}", number, *op))).skipped
    assert found(server) == [("k1", 1), ("k2", 2)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_an_answer_to_a_commit_that_was_lost_makes_no_second_one(server: Elsewhere, lost: int) -> None:
    publisher = DeltaSink(URL, options=options(server)).prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    assert server.lose(lost) == 0
    assert publisher.publish(replace(delivery(TARGET, 2, ("b", 2)), after=1)).rows == 1
    assert server.lose(0) == 0
    assert publisher.publish(replace(delivery(TARGET, 3, ("c", 3)), after=2)).rows == 1
    assert found(server) == [("a", 1), ("b", 2), ("c", 3)]

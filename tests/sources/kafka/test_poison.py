"""Ten thousand bad messages among good ones: no good row is lost, and each bad one is accounted for by its offset."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from strandline.sources.contract import Limit
from tests.sources.kafka.broker import Broker
from tests.sources.reading import offsets, pieces

BAD = 10_000
GOOD = 10_000
PARTITIONS = 3
SCHEMA = "id bigint, name string, amount double, at timestamp"
DAY = 86_400_000
NOW = 1_767_225_600_000


def good(chance: random.Random, number: int) -> bytes:
    row = {"id": number, "name": chance.choice(["ann", "Zoë", "\n", "☃", ""]), "amount": chance.random() * 100}
    return json.dumps({**row, "at": "2026-01-01T00:00:00Z"}, indent=chance.choice([None, None, None, 1])).encode()


def bad(chance: random.Random) -> bytes | None:
    """A message that no reader of the schema can take."""
    row = json.dumps({"id": 1, "name": "ann", "amount": 1.5, "at": "2026-01-01T00:00:00Z"})
    kinds: list[Any] = [
        row[: chance.randrange(1, len(row))].encode,  # cut off
        lambda: row.replace("1.5", chance.choice(['"x"', "[]", "true", '{"a": 1}'])).encode(),
        lambda: row.replace(
            '"id": 1', f'"id": {chance.choice(["1.5", "1e40", "true", "99999999999999999999"])}'
        ).encode(),
        lambda: row.replace(
            "2026-01-01T00:00:00Z", chance.choice(["soon", "2026-13-01", "99999-01-01T00:00:00Z"])
        ).encode(),
        lambda: row.encode()[:5] + bytes([chance.randrange(128, 256)]) * 2 + row.encode()[5:],
        lambda: bytes(chance.randrange(256) for _ in range(chance.randrange(1, 50))) + b"\xff",
        lambda: chance.choice([b"", b" ", b"\n\n", b"\r\n"]),
        lambda: None,
        lambda: chance.choice(
            [b"null", b"[]", b"17", b'"text"', b"{}{}", f"{row}\n{row}".encode(), f"{row} {row}".encode()]
        ),
        lambda: row.replace("ann", "\\ud800").encode(),
        lambda: row.replace("ann", "x" * chance.randrange(10_000, 100_000)).encode()[:-1],  # huge
        lambda: b"[" * 10_000,
        lambda: row.replace("ann", "a\nb").encode(),
    ]
    made: bytes | None = chance.choice(kinds)()
    return made


@pytest.mark.slow
def test_poison_among_good_messages_loses_nothing(broker: Broker) -> None:
    chance = random.Random(20_260_101)
    topic = broker.topic(PARTITIONS, message_timestamp_after_max_ms=str(1 << 62), max_message_bytes="2000000")
    kinds = [*[True] * GOOD, *[False] * BAD]
    chance.shuffle(kinds)
    sent: dict[tuple[int, int], Any] = {}
    ends = [0] * PARTITIONS
    for number, is_good in enumerate(kinds):
        partition = chance.randrange(PARTITIONS)
        value = good(chance, number) if is_good else bad(chance)
        far = not is_good and chance.random() < 0.05
        at = chance.choice([0, 1, NOW - 20_000 * DAY, NOW, NOW + 36_500 * DAY])  # ancient and future
        value = good(chance, number) if far else value
        stamp = chance.choice([1 << 50, (1 << 62) - 1]) if far else at  # in no calendar
        broker.plain.produce(topic, value, chance.choice([None, b"", b"k"]), partition=partition, timestamp=stamp)
        broker.plain.poll(0)
        sent[partition, ends[partition]] = (is_good, number, value)
        ends[partition] += 1
    assert broker.plain.flush(60) == 0

    reader = broker.source(topic, schema=SCHEMA, include=["key"]).reader()
    kept: dict[tuple[int, int], int] = {}
    refused: dict[tuple[int, int], tuple[Any, str]] = {}
    for start, end in offsets(reader, Limit(rows=6_000)):
        for piece in pieces(reader, start, end, 2):
            for row in piece.rows.select("kafka_partition", "kafka_offset", "id").rows():
                assert kept.setdefault(row[:2], row[2]) == row[2]
            for row in () if piece.malformed is None else piece.malformed.to_dicts():
                place = (row["kafka_partition"], row["kafka_offset"])
                assert place not in refused
                refused[place] = (row["raw"], row["reason"])
    assert kept == {place: number for place, (is_good, number, _) in sent.items() if is_good}
    assert {place: raw for place, (raw, _) in refused.items()} == {
        place: value for place, (is_good, _, value) in sent.items() if not is_good
    }
    assert all(reason for _, reason in refused.values())
    assert any("is no timestamp" in reason and "kafka_timestamp" in reason for _, reason in refused.values())

"""Entries of Redis as lookups: those that our sink wrote, and texts of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import strandline as sl
from strandline.model.types import Schema
from tests.lookups.playing import looked_up
from tests.sinks.delivering import TARGET, delivery
from tests.sinks.redis.serving import new_prefix


def test_what_our_sink_wrote_is_read_back(redis: str) -> None:
    prefix = new_prefix()
    schema = (
        "user string, shop bigint, n bigint, mean double, ok boolean, blob binary, tags array<string>, seen timestamp"
    )
    target = replace(TARGET, schema=Schema.of(schema), rows="upsert", key=("user", "shop"))
    seen = sl.Instant.of("2026-01-01T12:00:00Z").moment
    row = ("ann:1", 7, 3, float("inf"), True, b"\x00\xff", ["a,b", None], seen)
    publisher = sl.Redis(redis).write(prefix).prepare(target)
    publisher.publish(delivery(target, 1, (*row, "upsert")))
    publisher.close()
    found, reasons = looked_up(
        sl.Redis(redis).lookup(prefix), "who string, at_shop bigint",
        [{"who": "ann:1", "at_shop": 7}, {"who": "bob", "at_shop": 7}],
        on=["who", "at_shop"], output=schema.split(", ", 2)[2],
    )  # fmt: skip
    assert reasons == []
    names = ("n", "mean", "ok", "blob", "tags", "seen")
    assert found == [
        {"who": "ann:1", "at_shop": 7, **dict(zip(names, row[2:], strict=True))},
        {"who": "bob", "at_shop": 7, **dict.fromkeys(names)},
    ]


def test_an_entry_may_be_the_text_of_the_only_column(redis: str) -> None:
    import redis as client

    prefix = new_prefix()
    with client.Redis.from_url(redis) as server:
        server.mset({f"{prefix}ann": "3", f"{prefix}bob": "many"})
    rows: list[dict[str, Any]] = [{"user": user} for user in ("ann", "bob", "cid")]
    lookup = sl.Redis(redis).lookup(prefix, holds="text")
    found, (reason,) = looked_up(lookup, "user string", rows, on="user", output="n bigint")
    assert found == [{"user": "ann", "n": 3}, {"user": "cid", "n": None}]
    assert "'many' is no bigint" in reason


def test_a_text_is_one_column() -> None:
    events = sl.Flow("wrong").source("events", sl.Rows(schema="user string, at timestamp"), time="at")
    lookup = sl.Redis("redis://localhost").lookup("n:", holds="text")
    with pytest.raises(sl.CheckFailed, match="holds one text, and output= names 2 columns"):
        events.lookup("found", lookup, on="user", output="n bigint, m bigint").flow.check()


def test_a_redis_that_is_not_there_rejects_rows_and_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "hunter22")
    lookup = sl.Redis("redis://127.0.0.1:1", {"password": sl.Secret.env("REDIS_PASSWORD")}).lookup("n:")
    found, (reason,) = looked_up(lookup, "user string", [{"user": "ann"}], on="user", output="n bigint")
    assert found == []
    assert reason.startswith("Redis said: ")
    assert "hunter22" not in reason

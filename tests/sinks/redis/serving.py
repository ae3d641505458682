"""Where the tests find Redis, and entries in it that are theirs alone."""

from __future__ import annotations

import uuid
from typing import Any


def new_prefix() -> str:
    """A prefix that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}:"


def entries(url: str, prefix: str) -> dict[str, dict[str, str]]:
    """What stands under a prefix: the key's text, and its fields without the version."""
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as client:
        found: dict[str, Any] = {}
        for name in client.scan_iter(f"{prefix}*", count=1_000):
            fields = client.hgetall(name)
            assert fields.pop("_version")
            found[name.removeprefix(prefix)] = fields
        return found

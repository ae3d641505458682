"""What is derived from a row's place: its key, and how long to wait before it is sent again. Neither is drawn by chance."""

from __future__ import annotations

import hashlib
import json
import uuid

from strandline.sinks.contract import Target


def idempotency_key(target: Target, tick: int, place: int) -> str:
    r"""The key of a row: the UUID (version 5, namespace of urls) of the text `["flow","sink","incarnation",tick,place]`.

    The text is JSON without blanks, with \uXXXX for what is not ASCII. `place` counts the rows of a tick from 0, in the
    order of its files. So every retry, restart and replay of a tick gives its rows the same keys; going back to a savepoint
    begins a new incarnation, whose ticks are other ticks.

    >>> from strandline.model.types import Schema
    >>> target = Target(flow="orders", sink="pay", incarnation="i1", schema=Schema.of("n bigint"))
    >>> idempotency_key(target, 7, 0), idempotency_key(target, 7, 1)
    ('8e3a8b16-c5ac-591c-9a15-ec1164f55361', '00af859d-ace3-54e3-b10b-9c7f15f151ff')
    """
    text = json.dumps([target.flow, target.sink, target.incarnation, tick, place], separators=(",", ":"))
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def backoff(key: str, attempt: int, first: float, longest: float) -> float:
    """How many seconds to wait after a failed attempt, counted from 0: doubled each time, and spread by the key.

    Law: between the half and the whole of min(first * 2 ** attempt, longest), and the same for the same key and attempt.

    >>> [round(backoff("a", attempt, 0.2, 30.0), 3) for attempt in (0, 1, 2, 20)]
    [0.191, 0.203, 0.722, 16.399]
    """
    whole = min(first * 2.0 ** min(attempt, 60), longest)
    spread = int.from_bytes(hashlib.sha256(f"{key} {attempt}".encode()).digest()[:6], "big") / 2**48
    return whole * (0.5 + spread / 2)

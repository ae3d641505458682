"""What the flows of this folder read: clicks, orders and rates, in files of one tick each."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, Final

from strandline.model.time import Instant

TICKS: Final = 14
NOON: Final = Instant.of("2026-01-01T12:00:00Z")
SECOND: Final = 1_000_000
USERS: Final = ("ann", "bob", "cid", "dora", "eve")
CURRENCIES: Final = ("eur", "usd", "yen")
SCHEMAS: Final = {
    "clicks": "id string, user string, success boolean, at timestamp",
    "orders": "user string, amount bigint, currency string, at timestamp",
    "rates": "currency string, rate bigint, op string, at timestamp",
}
BOUND: Final = "20s"

Row = dict[str, Any]


def rows_of(source: str, tick: int) -> list[Row]:
    """What a source brings in a tick: a minute of events, in no order, some from minutes ago."""
    drawn = random.Random(f"{source} {tick}")
    make = {"clicks": _click, "orders": _order, "rates": _rate}[source]
    return [make(drawn, tick, number) for number in range({"clicks": 40, "orders": 25, "rates": 4}[source])]


def _at(drawn: random.Random, tick: int) -> str:
    behind = drawn.randrange(90, 400) if drawn.random() < 0.06 else 0
    return Instant(NOON + (60 * tick + drawn.randrange(60) - behind) * SECOND).text


def _click(drawn: random.Random, tick: int, number: int) -> Row:
    again = drawn.random() < 0.25
    name = f"{max(0, tick - drawn.randrange(3))}-{drawn.randrange(40)}" if again else f"{tick}-{number}"
    return {
        "id": name, "user": drawn.choice(USERS), "success": drawn.random() < 0.4, "at": _at(drawn, tick),
    }  # fmt: skip


def _order(drawn: random.Random, tick: int, number: int) -> Row:
    return {
        "user": drawn.choice(USERS), "amount": 100 * tick + number, "currency": drawn.choice(CURRENCIES),
        "at": _at(drawn, tick),
    }  # fmt: skip


def _rate(drawn: random.Random, tick: int, number: int) -> Row:
    gone = drawn.random() < 0.1
    return {
        "currency": drawn.choice(CURRENCIES), "rate": 10 * tick + number, "op": "delete" if gone else None,
        "at": _at(drawn, tick),
    }  # fmt: skip


def write_events(folder: Path) -> None:
    """A folder for each source, a file in it for each tick, in the order of their times of change."""
    for source in SCHEMAS:
        (folder / source).mkdir(parents=True)
        for tick in range(TICKS):
            path = folder / source / f"{tick:02}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(source, tick)))
            os.utime(path, (1_700_000_000 + tick, 1_700_000_000 + tick))

"""What inspect shows of a key can be typed to find it again."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from strandline.cli.answers import show_table
from strandline.kernel.schema import polars_type
from strandline.model.types import Type
from strandline.operations.key_values import key_value

EACH = {
    "boolean": True,
    "tinyint": -7,
    "bigint": 1_234_567,
    "double": 0.25,
    "decimal(10,2)": Decimal("12.30"),
    "string": "ann",
    "binary": b"ab\xff",
    "date": date(2026, 1, 2),
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=timezone.utc),
    "timestamp_ntz": datetime.fromisoformat("2026-01-02T03:04:05"),
    "interval day to second": timedelta(days=1, hours=2),
}


@pytest.mark.parametrize("kind", EACH)
def test_a_value_of_a_key_is_read_as_it_is_shown(kind: str, capsys: Any) -> None:
    show_table(Console(width=80), ["key"], [(EACH[kind],)])
    shown = capsys.readouterr().out.splitlines()[1].strip()
    assert key_value("key", shown, polars_type(Type.of(kind))).to_list() == [EACH[kind]]

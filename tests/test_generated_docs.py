"""The generated pages of docs/ are what `make docs` writes."""

from __future__ import annotations

import pytest

from docs.generate import AGGREGATES, HERE, PAGES, SAMPLES, refused, require_agreement, stage_of
from docs.pictures import PICTURES

LONG = {"aggregates.md", "mistakes.md"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PAGES]
)
def test_the_page_says_what_is_true_now(name: str) -> None:
    assert (HERE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs` and look at what changed"


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_shows_what_is_there_now(name: str) -> None:
    shown = (HERE / "pictures" / name).read_text(encoding="utf-8")
    assert shown == PICTURES[name](), "run `make docs` and look at what changed"


def test_the_tables_of_monitoring_name_what_health_finds_every_metric_and_every_alert() -> None:
    assert (HERE / "monitoring.md").read_text(encoding="utf-8") == PAGES["monitoring.md"](), "run `make docs`"


def test_each_aggregate_takes_a_bigint() -> None:
    assert [name for name in AGGREGATES if refused(stage_of("bigint", name)) is not None] == []
    require_agreement(stage_of("bigint", *AGGREGATES), "bigint")


def test_the_page_has_a_row_for_every_type_and_aggregate() -> None:
    page = (HERE / "aggregates.md").read_text(encoding="utf-8")
    assert [text for text in SAMPLES if f"\n| `{text}` |" not in page] == []
    assert [name for name in AGGREGATES if f"\n| {name} |" not in page] == []

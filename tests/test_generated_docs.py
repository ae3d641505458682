"""The generated pages of docs/ are what `make docs` writes."""

from __future__ import annotations

import pytest

from docs.generate import AGGREGATES, HERE, PAGES, SAMPLES, refused, require_agreement, stage_of


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_page_says_what_is_true_now(name: str) -> None:
    assert (HERE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs` and look at what changed"


def test_each_aggregate_takes_a_bigint() -> None:
    assert [name for name in AGGREGATES if refused(stage_of("bigint", name)) is not None] == []
    require_agreement(stage_of("bigint", *AGGREGATES), "bigint")


def test_the_page_has_a_row_for_every_type_and_aggregate() -> None:
    page = (HERE / "aggregates.md").read_text(encoding="utf-8")
    assert [text for text in SAMPLES if f"\n| `{text}` |" not in page] == []
    assert [name for name in AGGREGATES if f"\n| {name} |" not in page] == []

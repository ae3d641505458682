"""What users are told who do something wrong: what and fix, without a stack trace. docs/mistakes.md shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import HERE
from docs.mistakes import section
from tests.mistakes import BEFORE_A_RUN
from tests.mistakes.mistake import Mistake

MISTAKES = [mistake for part in BEFORE_A_RUN.values() for mistake in part]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_mistake_is_told_with_its_fix_as_the_page_shows_it(mistake: Mistake, tmp_path: Path) -> None:
    told = mistake.made_in(tmp_path)
    assert told.code == mistake.code
    assert mistake.says
    assert mistake.says in told.said
    assert told.said.startswith("error: ")
    assert "\n  fix: " in told.said
    assert "Traceback" not in told.said
    assert "\x1b" not in told.said
    page = (HERE / "mistakes.md").read_text(encoding="utf-8")
    assert "\n".join(section(mistake, told)) in page, "run `make docs` and look at what changed"


def test_there_are_many_mistakes_and_no_two_have_one_title() -> None:
    assert len({mistake.title for mistake in MISTAKES}) == len(MISTAKES) >= 40

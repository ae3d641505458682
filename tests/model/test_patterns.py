"""What a pattern refuses by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import strandline as sl
from strandline.errors import StrandlineError

A = sl.step("a", "x = 1")
REFUSED: dict[str, Callable[[], Any]] = {
    "A sequence without within= would wait": lambda: sl.sequence(A),
    "within='0s' is not positive": lambda: sl.sequence(A, within="0s"),
    "A sequence is made of steps, not 'a'": lambda: sl.sequence("a", within="1h"),  # type: ignore[arg-type]
    "A sequence is made of steps, not None": lambda: sl.sequence(within="1h"),
    "Two steps of a sequence have one name: a, a": lambda: sl.sequence(A, A, within="1h"),
    "skip='none' is not known": lambda: sl.sequence(A, within="1h", skip="none"),  # type: ignore[arg-type]
    "The step 'b' would never be taken": lambda: sl.sequence(A, sl.step("b", "x = 2").optional(), within="1h"),
    "A sequence needs a step that is there": lambda: sl.sequence(A.optional(), within="1h"),
    "The first step follows nothing": lambda: sl.sequence(sl.next("a", "x = 1"), within="1h"),
    "times(0, None) of step 'a' is no number": lambda: A.times(0),
    "times(3, 2) of step 'a' is no number": lambda: A.times(3, 2),
    "The absent step 'b' has no events to count": lambda: sl.absent("b", "x = 2").times(2),
    "'' is no name of a step": lambda: sl.step("", "x = 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_what_is_wrong_and_a_fix(what: str) -> None:
    with pytest.raises(StrandlineError) as caught:
        REFUSED[what]()
    assert what in caught.value.what
    assert caught.value.fix.endswith(".")


def test_followed_by_is_a_step_that_reads_well() -> None:
    assert sl.followed_by("a", "x = 1") == A

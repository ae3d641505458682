"""A process in columns: Polars or Arrow, sides, and answers that are none."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import strandline as sl
from strandline.testing import Events, play

ROWS = [{"user": "ann", "n": n, "at": f"2026-01-01T12:00:0{n}Z"} for n in range(3)]


def stage(answer: Any, *, kind: str = "polars", **options: Any) -> Any:
    class Mine(sl.TableProcess):
        tables = kind  # type: ignore[assignment]
        count = sl.Value("bigint", 0)

        def on_events(self, events: Any, state: Any) -> Any:
            return answer(events, state)

    source = sl.Flow("mine").source("events", sl.Rows(schema="user string, n bigint, at timestamp"), time="at")
    return source.key_by("user").process("mine", Mine, output="user string, n bigint", **options)


def shown(stream: Any) -> list[Any]:
    return [[row["n"] for row in rows] for rows in play(stream, [Events(ROWS), Events(ROWS)], runner="kernel")]


def counted(events: Any, state: Any) -> tuple[Any, ...]:
    """Every event with the number of ticks before, in whatever kind of table."""
    frame, known = pl.DataFrame(events), pl.DataFrame(state)
    out = frame.join(known, on="user").select("user", n="count", __time="__time")
    odd = out.filter(frame["n"] % 2 == 1)
    after, sides = known.with_columns(pl.col("count") + 1), {"odd": odd}
    if isinstance(events, pa.Table):
        return out.to_arrow(), after.to_arrow(), {"odd": odd.to_arrow()}
    return out, after, sides


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_it_is_given_the_tables_that_it_asks_for_and_may_have_sides(kind: str) -> None:
    given: list[Any] = []

    def answer(events: Any, state: Any) -> Any:
        given.append((type(events), type(state)))
        return counted(events, state)

    mine = stage(answer, kind=kind, side={"odd": "user string, n bigint", "never": "n bigint"})
    assert shown(mine) == [[0, 0, 0], [1, 1, 1]]
    assert {*given} == {(pl.DataFrame, pl.DataFrame) if kind == "polars" else (pa.Table, pa.Table)}
    assert shown(mine.side("odd")) == [[0], [1]]
    assert shown(mine.side("never")) == [[], []]


WRONG: dict[str, Any] = {
    "gave None": lambda events, state: None,
    "gave (shape": lambda events, state: (events, state, [events]),
    "gives rows to the side 'even'": lambda events, state: (events, state, {"even": events}),
    "without the column 'n'": lambda events, state: (events.select("user", "__time"), state),
    "two rows of state for one key": lambda events, state: (events, pl.concat([state, state])),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_answer_that_is_none_is_refused_with_a_fix(what: str) -> None:
    with pytest.raises(sl.DataError) as caught:
        shown(stage(WRONG[what], side={"odd": "n bigint"}))
    assert what in caught.value.what
    assert caught.value.fix


def test_tables_of_another_kind_are_refused() -> None:
    with pytest.raises(sl.DescriptionError, match="tables='pandas' of Mine is not known"):
        stage(counted, kind="pandas")

"""How much a tick may read follows how long ticks take."""

from __future__ import annotations

from strandline.model.time import Span
from strandline.spark.admission import Admission


def ticks(admission: Admission, *, rows_per_second: int, arriving: int, count: int) -> list[float]:
    """How long ticks take, in seconds, when so many rows come in a second and so many can be worked off."""
    waiting, took = float(arriving), []
    for _ in range(count):
        rows = int(min(waiting, admission.limit))
        took.append(rows / rows_per_second)
        admission.observe(rows=rows, took=Span(int(took[-1] * 1_000_000)))
        waiting += arriving * max(1.0, took[-1]) - rows
    return took


def test_when_a_sink_becomes_ten_times_slower_than_the_source_only_the_first_tick_is_long() -> None:
    admission = Admission(target=Span.of("5s"))
    assert max(ticks(admission, rows_per_second=50_000, arriving=5_000, count=10)) < 1
    slow = ticks(admission, rows_per_second=500, arriving=5_000, count=20)
    assert slow[0] == 10
    assert all(4 <= each <= 5.5 for each in slow[1:])


def test_where_what_is_counted_gives_few_rows_ticks_grow_again_all_the_same() -> None:
    admission = Admission(target=Span.of("5s"), limit=200_000)
    admission.observe(rows=2_000, took=Span.of("10s"), more=True)
    assert admission.limit == 1_000
    for _ in range(10):
        admission.observe(rows=admission.limit // 100, took=Span.of("20ms"), more=True)
    assert admission.limit > 100_000


def test_when_the_sink_is_fast_again_ticks_grow_to_their_target() -> None:
    admission = Admission(target=Span.of("5s"), limit=1_000)
    rows = []
    for _ in range(20):
        rows.append(admission.limit)
        admission.observe(rows=admission.limit, took=Span(admission.limit * 20))  # 50,000 rows per second
    assert rows[:3] == [1_000, 2_000, 4_000]
    assert rows[-1] == 250_000

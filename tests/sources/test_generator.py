from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import DescriptionError
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant, Span
from strandline.sources.contract import Limit, Place
from strandline.sources.drawing import Pace
from strandline.sources.generator import SCHEMA, Generator
from tests.lanes import examples
from tests.sources.reading import NO_LIMIT, everything, malformed_of, pieces, rows_of, table_of

START = Instant.of("2026-01-01T00:00:00Z")


@pytest.mark.slow
@given(
    st.integers(0, 200), st.integers(1, 4), st.integers(1, 60), st.integers(1, 9), st.sampled_from([0.0, 1.1]),
    st.sampled_from([{}, {0: ("10ms", "30ms")}]),
)  # fmt: skip
@settings(max_examples=examples(50), deadline=None)
def test_however_the_ticks_and_parts_are_cut_the_rows_are_the_same(
    rows: int, partitions: int, most: int, wanted: int, skew: float, idle: Any
) -> None:
    source = Generator(
        rows=rows, partitions=partitions, skew=skew, idle=idle, disorder="1s", late_share=0.1, malformed_share=0.1
    )
    reader = source.reader()
    whole = everything(reader)
    assert sorted(everything(reader, Limit(rows=most), wanted)) == sorted(whole)
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT), wanted)
    assert len(whole) + len(malformed_of(found)) == rows
    assert len({(row[4], row[2]) for row in whole}) == len(whole)


@given(st.floats(0.5, 1e6), st.integers(1, 7), st.integers(0, 6), st.integers(0, 10**10), st.integers(0, 10**8))
@settings(max_examples=examples(100), deadline=None)
def test_before_counts_the_rows_whose_turn_has_come(
    rate: float, every: int, first: int, elapsed: int, gap: int
) -> None:
    pace = Pace(1e6 / rate, every, first % every, 5_000_000, 5_000_000 + gap)
    count = pace.before(elapsed)
    turns = pace.turns(max(0, count - 1), count + 1).tolist()
    assert turns[-1] >= elapsed
    assert count == 0 or turns[0] < elapsed


def test_the_columns_are_those_of_the_schema_and_the_seed_decides() -> None:
    def table(seed: int) -> Any:
        reader = Generator(seed=seed, rows=1000, keys=10).reader()
        return table_of(pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT)))

    assert dict(table(1).schema) == polars_schema(SCHEMA)
    assert table(1).equals(table(1))
    assert not table(1)["key"].equals(table(2)["key"])
    assert set(table(1)["key"]) == {f"k{n}" for n in range(10)}


def test_an_endless_one_brings_a_second_in_each_tick_or_what_the_limit_says() -> None:
    reader = Generator(rate=50).reader()
    assert reader.latest(reader.first(), NO_LIMIT) == {"rows": [50]}
    assert reader.latest({"rows": [50]}, Limit(rows=7)) == {"rows": [57]}
    place = reader.places({"rows": [57]})["0"]
    assert place.position < place.end
    assert not place.finished


def test_skew_makes_few_keys_frequent() -> None:
    flat = Counter(row[0] for row in everything(Generator(rows=10_000, keys=100).reader()))
    steep = Counter(row[0] for row in everything(Generator(rows=10_000, keys=100, skew=1.5).reader()))
    assert max(flat.values()) < 200
    assert steep["k0"] > 3000


def test_disorder_lateness_and_slow_partitions_move_times_back_and_never_forward() -> None:
    source = Generator(
        rows=2000, rate=1000, disorder="2s", late_share=0.25, late_by="1m", partitions=2, slow={1: "30s"}
    )
    back = {0: [], 1: []}  # type: dict[int, list[int]]
    for _, _, n, at, partition in everything(source.reader()):
        back[partition].append(START + (2 * n + partition) * 1000 - Instant.of(at))
    late = [lag for lag in back[0] if lag >= 60_000_000]
    assert 0.2 < len(late) / 1000 < 0.3
    assert all(0 <= lag < 2_000_000 for lag in back[0] if lag < 60_000_000)
    assert min(back[1]) >= 30_000_000


def test_live_rows_come_as_time_goes_by() -> None:
    reader = Generator(live=True, rate=100, partitions=2, idle={1: ("1s", "3s")}).reader()
    now = 10**15
    begun = reader.latest(reader.first(), NO_LIMIT, now=now)
    assert begun == {"rows": [0, 0], "of": [0, 0], "began": now}
    second = reader.latest(begun, NO_LIMIT, now=now + 1_000_000)
    assert second["rows"] == [50, 50]
    third = reader.latest(second, Limit(rows=30), now=now + 2_000_000)
    assert third == {"rows": [80, 50], "of": [100, 50], "began": now}
    assert reader.places(third) == {"0": Place(position=80, end=100), "1": Place(position=50, end=50)}
    assert reader.latest(third, NO_LIMIT) == third
    assert min(Instant.of(row[3]) for row in rows_of(pieces(reader, begun, second))) == now


def test_the_end_is_final_when_the_number_of_rows_is_given() -> None:
    reader = Generator(rows=5, partitions=2).reader()
    assert reader.places(reader.first()) == {
        "0": Place(position=0, end=3, finished=True), "1": Place(position=0, end=2, finished=True),
    }  # fmt: skip
    live = Generator(rows=5, live=True, rate=1).reader()
    assert not live.places(live.first())["0"].finished
    begun = live.latest(live.first(), NO_LIMIT, now=0)
    assert live.places(live.latest(begun, NO_LIMIT, now=60_000_000))["0"] == Place(position=5, end=5, finished=True)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1}, {"rows": -1}, {"rate": 0}, {"rate": "fast"}, {"keys": 0}, {"skew": -1}, {"late_share": 2},
        {"malformed_share": -0.1}, {"partitions": 0}, {"slow": {1: "1s"}}, {"idle": {0: "1s"}},
        {"idle": {0: ("2s", "1s")}}, {"disorder": 5}, {"start": "noon"}, {"live": "yes"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DescriptionError):
        Generator(**options)


def test_two_equal_descriptions_are_equal() -> None:
    assert Generator(disorder="60s", slow={0: "1s"}) == Generator(disorder="1m", slow={0: "1000ms"})
    assert Generator(disorder="1m").disorder == Span.of("1m")

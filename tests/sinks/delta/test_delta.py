"""Rows in Delta tables."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from strandline.errors import DescriptionError, RunError, SinkError
from strandline.kernel.changes import applied
from strandline.kernel.schema import polars_schema
from strandline.model.secrets import Secret
from strandline.model.types import Schema
from strandline.sinks.contract import Target
from strandline.sinks.delta.description import DeltaSink
from tests.lanes import examples
from tests.sinks.delivering import CHANGES, EVERYTHING, LOG, TARGET, delivery, delivery_of, tables
from tests.sinks.delta.reading import rows_of, sorted_rows

NAN = float("nan")


def publish(path: Path, target: Target, *ticks: list[tuple[Any, ...]], first: int = 1, **options: Any) -> None:
    publisher = DeltaSink(path, **options).prepare(target)
    for number, rows in enumerate(ticks, first):
        publisher.publish(delivery(target, number, *rows))
    publisher.close()


def test_rows_are_added_each_tick_in_one_commit(tmp_path: Path) -> None:
    publish(tmp_path, TARGET, [("a", 1)], [("a", 2), (None, 3)])
    assert sorted_rows(tmp_path) == [("a", 1), ("a", 2), (None, 3)]
    table = DeltaTable(tmp_path)
    assert table.version() == 2
    last = table.history(1)[0]
    assert (last["strandline.tick"], last["strandline.digest"]) == ("2", "digest-of-2")
    table.load_as_version(1)
    assert sorted_rows(table) == [("a", 1)]


def test_a_changelog_is_added_with_op(tmp_path: Path) -> None:
    publish(tmp_path, LOG, [("a", 1, "retract"), ("a", 2, "insert")])
    assert sorted_rows(tmp_path) == [("a", 1, "retract"), ("a", 2, "insert")]


def test_an_upsert_takes_the_place_of_the_row_with_its_key(tmp_path: Path) -> None:
    publish(tmp_path, CHANGES, [("a", 1, "upsert"), ("b", 2, "upsert")], [("a", 9, "upsert"), ("b", None, "delete")])
    assert sorted_rows(tmp_path) == [("a", 9)]


KEYS = st.tuples(
    st.one_of(st.none(), st.sampled_from(["a", "b", ""])), st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, NAN]))
)
TICKS = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=5), max_size=5)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(ticks=TICKS)
def test_the_table_is_what_the_changes_amount_to(ticks: list[dict[Any, int | None]], tmp_path_factory: Any) -> None:
    """Null, NaN and the two zeros among the keys."""
    path = tmp_path_factory.mktemp("law")
    target = replace(CHANGES, schema=Schema.of("k string, f double, n bigint"), key=("k", "f"))
    schema = {"k": pl.String, "f": pl.Float64, "n": pl.Int64}
    table = pl.DataFrame(schema=schema)
    for number, tick in enumerate(ticks, 1):
        unique = {(k, repr(None if f is None else f + 0.0)): (k, f, n) for (k, f), n in tick.items()}
        rows = [(k, f, n, "delete" if n is None else "upsert") for k, f, n in unique.values()]
        publish(path, target, rows, first=number)
        changed = pl.DataFrame(rows, schema={**schema, "op": pl.String}, orient="row")
        zeros = pl.when(pl.col("f") == 0).then(0.0).otherwise(pl.col("f")).alias("f")
        table = applied(table, changed.with_columns(zeros), ["k", "f"])
    if ticks:
        assert list(map(repr, sorted_rows(path))) == sorted(map(repr, table.rows()))


@settings(max_examples=examples(20))
@given(table=tables())
def test_every_value_reads_back(table: pl.DataFrame, tmp_path_factory: Any) -> None:
    """Intervals as microseconds."""
    path = tmp_path_factory.mktemp("types")
    target = replace(TARGET, schema=EVERYTHING)
    publisher = DeltaSink(path).prepare(target)
    publisher.publish(delivery_of(target, 1, table))
    publisher.close()
    found = rows_of(path)
    assert found["iv"].dtype == pl.Int64
    assert_frame_equal(found.cast(pl.Schema(polars_schema(EVERYTHING))), table, check_exact=True)


def test_a_tick_of_many_tables_is_one_commit(tmp_path: Path) -> None:
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    parts = delivery(TARGET, 1, *((str(at), at) for at in range(50))).tables().__next__().iter_slices(7)
    assert publisher.publish(delivery_of(TARGET, 1, *parts)).rows == 50
    assert publisher.publish(delivery(TARGET, 2)).rows == 0
    assert publisher.marker is not None
    assert publisher.marker.tick == 2
    assert DeltaTable(tmp_path).version() == 2


def test_the_marker_outlives_the_log(tmp_path: Path) -> None:
    """Old commits go with their log; the marker stands in the checkpoint."""
    publish(tmp_path, TARGET, [("a", 1)], [("a", 2)])
    table = DeltaTable(tmp_path)
    table.create_checkpoint()
    for file in (tmp_path / "_delta_log").glob("*.json"):
        file.unlink()
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    assert publisher.publish(delivery(TARGET, 2, ("a", 2))).skipped
    with pytest.raises(SinkError, match="other rows for tick 2"):
        publisher.publish(delivery(TARGET, 2, ("a", 2), digest="other"))


def test_compaction_and_vacuum_keep_rows_and_marker(tmp_path: Path) -> None:
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    publisher.publish(delivery(TARGET, 2, ("b", 2)))
    other = DeltaTable(tmp_path)
    other.optimize.compact()
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert publisher.publish(replace(delivery(TARGET, 3, ("c", 3)), after=2)).rows == 1
    assert publisher.publish(delivery(TARGET, 3, ("c", 3))).skipped
    assert sorted_rows(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]


# Others that write.


@pytest.mark.parametrize("target", [TARGET, CHANGES], ids=["append", "upsert"])
def test_a_commit_of_another_between_judging_and_writing_is_looked_at_again(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ("a", 1) if target is TARGET else ("a", 1, "upsert")
    one, two = DeltaSink(tmp_path).prepare(target), DeltaSink(tmp_path).prepare(target)
    write, first = one.writes.write, [True]

    def raced(*given: Any) -> None:
        if first.pop() if first else False:
            two.publish(delivery(target, 1, row))
        write(*given)

    monkeypatch.setattr(one.writes, "write", raced)
    one.publish(delivery(target, 1, row))
    assert sorted_rows(tmp_path) == [("a", 1)]
    assert DeltaTable(tmp_path).version() == 1
    with pytest.raises(SinkError, match="other rows for tick 1"):
        one.publish(delivery(target, 1, row, digest="other"))


def test_two_publishers_at_once_leave_what_one_does(tmp_path: Path) -> None:
    ticks = [delivery(TARGET, number, (f"k{number}", number)) for number in range(1, 9)]
    DeltaSink(tmp_path).prepare(TARGET)
    failures: list[SinkError] = []

    def run() -> None:
        publisher = DeltaSink(tmp_path).prepare(TARGET)
        try:
            for tick in ticks:
                publisher.publish(tick)
        except SinkError as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) < 3
    assert all("comes too late" in error.what for error in failures), failures
    assert sorted_rows(tmp_path) == [(f"k{number}", number) for number in range(1, 9)]


def test_others_may_add_rows_between_ticks(tmp_path: Path) -> None:
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    write_deltalake(tmp_path, pl.DataFrame({"k": ["x"], "n": [0]}).to_arrow(), mode="append")
    assert publisher.publish(replace(delivery(TARGET, 2, ("b", 2)), after=1)).rows == 1
    assert sorted_rows(tmp_path) == [("a", 1), ("b", 2), ("x", 0)]


def test_one_who_always_comes_first_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    write = publisher.writes.write

    def raced(*given: Any) -> None:
        write_deltalake(tmp_path, pl.DataFrame({"k": ["x"], "n": [0]}).to_arrow(), mode="append")
        write(*given)

    monkeypatch.setattr(publisher.writes, "write", raced)
    with pytest.raises(SinkError, match="Others changed the table"):
        publisher.publish(delivery(TARGET, 1, ("a", 1)))
    monkeypatch.undo()
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1


def test_two_sinks_may_add_to_one_table_each_with_its_marker(tmp_path: Path) -> None:
    other = replace(TARGET, sink="other")
    publish(tmp_path, TARGET, [("a", 1)], first=5)
    publish(tmp_path, other, [("b", 2)], first=3)
    publisher = DeltaSink(tmp_path).prepare(TARGET)
    assert publisher.publish(delivery(TARGET, 5, ("a", 1))).skipped
    assert sorted_rows(tmp_path) == [("a", 1), ("b", 2)]


def test_another_sink_that_upserts_is_refused_until_it_is_acknowledged(tmp_path: Path) -> None:
    publish(tmp_path, CHANGES, [("a", 1, "upsert")])
    for other in (replace(CHANGES, sink="other"), replace(TARGET, sink="other")):
        with pytest.raises(SinkError, match="upserts of another sink"):
            DeltaSink(tmp_path).prepare(other)
    publish(tmp_path, replace(CHANGES, sink="other", acknowledged=True), [("a", 2, "upsert")])
    assert sorted_rows(tmp_path) == [("a", 2)]


def test_a_table_that_was_removed_is_refused_until_it_is_acknowledged(tmp_path: Path) -> None:
    following = replace(delivery(TARGET, 2, ("b", 2)), after=1)
    with pytest.raises(SinkError, match="shows no delivery, but tick 1 was published"):
        DeltaSink(tmp_path / "new").prepare(TARGET).publish(following)
    acknowledged = DeltaSink(tmp_path / "new").prepare(replace(TARGET, acknowledged=True))
    assert acknowledged.publish(following).rows == 1


def test_a_table_that_forgets_markers_is_told(tmp_path: Path) -> None:
    publish(tmp_path, TARGET, [("a", 1)])
    DeltaTable(tmp_path).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})
    assert "forgets how far this sink is" in DeltaSink(tmp_path).prepare(TARGET).notes[0]
    assert DeltaSink(tmp_path / "other").prepare(TARGET).notes == []


# Tables that do not fit.


def test_a_table_of_others_is_used_if_it_has_the_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pl.DataFrame({"k": ["x"], "n": [0]}).to_arrow(), commit_properties=CommitProperties())
    publish(tmp_path, CHANGES, [("x", None, "delete"), ("a", 1, "upsert")])
    assert sorted_rows(tmp_path) == [("a", 1)]


def test_a_table_with_other_columns_is_refused_with_all_that_differs(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pl.DataFrame({"n": ["x"], "more": [0]}).to_arrow())
    with pytest.raises(SinkError, match="'k' is missing; 'more' is there, but not delivered; 'n' is"):
        DeltaSink(tmp_path).prepare(TARGET)


def test_a_table_may_be_divided_by_a_column(tmp_path: Path) -> None:
    publish(tmp_path, CHANGES, [("a", 1, "upsert"), (None, 2, "upsert")], [("a", 3, "upsert")], partition_by="k")
    assert DeltaTable(tmp_path).metadata().partition_columns == ["k"]
    assert sorted_rows(tmp_path) == sorted([("a", 3), (None, 2)], key=repr)
    with pytest.raises(SinkError, match="partition_by= names 'day'"):
        DeltaSink(tmp_path / "other", partition_by=["day"]).prepare(TARGET)


@pytest.mark.parametrize(
    ("schema", "said"),
    [("`a b` string, k string, n bigint", "do not take"), ("k string, K string, n bigint", "one column to Delta")],
)
def test_names_that_delta_does_not_take_are_refused(schema: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=said):
        DeltaSink(tmp_path).prepare(replace(TARGET, schema=Schema.of(schema)))


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SinkError, match="could not be opened"):
        DeltaSink(tmp_path / "file" / "table").prepare(TARGET)


# Descriptions.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": ""}, "no place"),
        ({"path": 7}, "no place"),
        ({"path": "s3://ann:hunter2@bucket/table"}, "not repeated here"),
        ({"path": "s3://bucket/table?secret_access_key=hunter2"}, "not repeated here"),
        ({"partition_by": [1]}, "names no columns"),
        ({"options": {"aws_secret_access_key": "hunter2"}}, "stands openly"),
        ({"options": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}, "ticks would be lost"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DescriptionError, match=said) as refused:
        DeltaSink(**({"path": "table"} | given))
    assert "hunter2" not in str(refused.value)


def test_secrets_are_read_where_they_are_used_and_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "aws_access_key_id": "ann", "aws_secret_access_key": Secret.env("S3_KEY"), "aws_region": "eu-central-1",
        "aws_endpoint": "http://127.0.0.1:9", "aws_allow_http": "true", "max_retries": "0", "retry_timeout": "1s",
    }  # fmt: skip
    made = DeltaSink("s3://bucket/table", options=options)
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(RunError, match="S3_KEY"):
        made.prepare(TARGET)
    monkeypatch.setenv("S3_KEY", "hunter2-canary")
    with pytest.raises(SinkError, match="could not be opened") as failed:
        made.prepare(TARGET)
    assert failed.value.__cause__ is None
    assert not [each for each in (repr(made), str(failed.value)) if "canary" in each]


def test_only_a_table_that_is_upserted_has_one_sink(tmp_path: Path) -> None:
    assert DeltaSink(tmp_path).own_target("append") is None
    assert DeltaSink(tmp_path).own_target("upsert") == DeltaSink(f"{tmp_path}/.").own_target("upsert")

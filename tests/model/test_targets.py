"""Where rows go: what check() refuses of the sinks of a flow, taken together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.errors import CheckFailed
from tests.model.sinking import Shelf, orders

UPSERT: dict[str, Any] = {"rows": "upsert", "key": "user"}


def sunk(one: Any, other: Any, **options: Any) -> sl.Flow:
    stream = orders()
    stream.sink("one", one, **options)
    stream.where("n > 1").sink("other", other, **options)
    return stream.flow


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    monkeypatch.chdir(tmp_path)


SHARING: dict[str, Any] = {
    "a memory": lambda: sunk(*[sl.Memory()] * 2),
    "a folder": lambda: sunk(sl.Files("out").write(), sl.Files(Path("out").absolute()).write(format="json")),
    "a folder by a link": lambda: sunk(sl.Files("out").write(layout="log"), sl.Files("link").write(layout="log")),
    "a bucket": lambda: sunk(sl.Files("s3://here/out").write(), sl.Files("s3://here/out/").write()),
    "an upserted table": lambda: sunk(
        sl.Database("sqlite:///x.db").write("t"), sl.Database(f"sqlite:///{Path.cwd()}/x.db").write("T"), **UPSERT),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHARING)
def test_two_sinks_with_one_target_that_cannot_tell_them_apart_are_refused(kind: str) -> None:
    with pytest.raises(CheckFailed, match="The sinks 'one' and 'other' have one target") as caught:
        SHARING[kind]().check()
    assert len(caught.value.problems) == 1


def write(df: Any, tick: Any) -> None:
    """Is told by the tick which sink calls it."""


@pytest.mark.parametrize(
    ("one", "other", "options"),
    [
        (sl.Memory("same"), sl.Memory("same"), {}),
        (sl.Files("out").write(), sl.Files("out/other").write(), {}),
        (sl.Database("sqlite:///x.db").write("t"), sl.Database("sqlite:///x.db").write("t"), {}),
        (sl.Database("sqlite:///x.db").write("t"), sl.Database("sqlite:///x.db").write("t2"), UPSERT),
        (sl.Database("sqlite:///x.db").write("t"), sl.Database("sqlite:///y.db").write("t"), UPSERT),
        (sl.ForeachTick(write), sl.ForeachTick(write), {}),
        (sl.Console(), sl.Console(), {}),
        (Shelf(), Shelf(), {}),
    ],
)
def test_sinks_with_targets_of_their_own_or_that_tell_them_apart_are_let_through(
    one: Any, other: Any, options: dict[str, Any]
) -> None:
    sunk(one, other, **options).check()


def looping(read: str, written: str, *, pattern: str | None = None, **options: Any) -> sl.Flow:
    source = sl.Files(read).read(format="json", schema="n int, at timestamp", pattern=pattern)
    events = sl.Flow("f").source("events", source, time="at")
    events.sink("out", sl.Files(written).write(**{"format": "json", **options}))
    return events.flow


@pytest.mark.parametrize(
    ("read", "written", "options"),
    [
        ("data", "data", {}),
        ("data/", "data/eu/out", {}),
        ("data", "file://{here}/data/out", {}),
        ("{here}/data", "data/out", {"layout": "log"}),
        ("out", "link", {}),
        ("link", "out/below", {}),
        ("da*/out", "data/out", {}),
        ("data", "data/out", {"pattern": "*.json"}),
        ("data/**/*.json", "data/out", {}),
        (".", "out", {}),
    ],
)
def test_a_flow_that_reads_the_files_it_writes_is_refused(
    read: str, written: str, options: dict[str, Any], tmp_path: Path
) -> None:
    flow = looping(read.format(here=tmp_path), written.format(here=tmp_path), **options)
    with pytest.raises(CheckFailed, match="'out' writes where the source 'events' reads"):
        flow.check()


@pytest.mark.parametrize(
    ("read", "written", "options"),
    [
        ("data", "database", {}),
        ("data/in", "data/out", {}),
        ("data/in", "data", {}),
        ("data", "data/_out", {}),
        ("data", "data/out", {"pattern": "*.csv"}),
        ("data", "data/out", {"pattern": "*.json", "format": "parquet"}),
        ("data/*/in", "data/eu/out", {}),
        ("data/in.json", "data", {}),
        (".", "s3://data/out", {}),
    ],
)
def test_a_flow_that_does_not_read_what_it_writes_is_let_through(
    read: str, written: str, options: dict[str, Any]
) -> None:
    assert looping(read, written, **options).check() == []


def topics(read: dict[str, Any], written: str, servers: str = "one:9092") -> sl.Flow:
    source = sl.Kafka("one:9092,two:9092").read(format="json", schema="user string, at timestamp", **read)
    stream = sl.Flow("topics").source("events", source, time="at", watermark=sl.Bounded("0s"))
    stream.sink("out", sl.Kafka(servers).write(written))
    return stream.flow


@pytest.mark.parametrize("read", [{"topics": ["in", "out"]}, {"topics": {"out": [1]}}, {"pattern": ".*"}])
def test_a_flow_that_reads_the_topic_it_writes_is_refused(read: dict[str, Any]) -> None:
    with pytest.raises(CheckFailed, match="'out' writes where the source 'events' reads"):
        topics(read, "out", "two:9092, three:9092").check()
    topics(read, "out", "elsewhere:9092").check()


def test_a_flow_may_write_another_topic_than_it_reads() -> None:
    topics({"pattern": "in-.*"}, "out").check()

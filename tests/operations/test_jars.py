"""Kafka's jars are there as a whole or not at all. Ivy is the real one; it finds them in a folder in place of the net."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.errors import RunError
from strandline.operations.jars import KAFKA, amiss, cache, jars, kafka_jars
from tests import servers

pytestmark = pytest.mark.slow
FETCH = "from strandline.operations.jars import kafka_jars; print(kafka_jars(print), flush=True)"
NO_NET = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ivy looks before it asks the net, which it cannot reach; the jars are those that brokers run with."""
    servers.need_kafka()
    whole = cache() / f"kafka-{KAFKA}"
    for jar in jars():
        place = tmp_path / "ivy" / "local" / jar.group / jar.name / jar.version / "jars" / f"{jar.name}.jar"
        place.parent.mkdir(parents=True)
        shutil.copy(whole / jar.file, place)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Divy.default.ivy.user.dir={tmp_path / 'ivy'} {NO_NET}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "ivy" / "local"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "strandline" / f"kafka-{KAFKA}"


def test_they_are_fetched_once_and_leave_nothing_else(repository: Path) -> None:
    said: list[str] = []
    folder = kafka_jars(said.append)
    assert (amiss(folder), len(list(folder.glob("*.jar")))) == ([], len(jars()))
    assert kafka_jars(said.append) == folder
    assert len(said) == 1
    assert sorted(each.name for each in cache().iterdir()) == [f"kafka-{KAFKA}", f"kafka-{KAFKA}.lock"]


def test_a_jar_that_is_missing_or_damaged_is_fetched_again(repository: Path) -> None:
    folder = kafka_jars()
    (folder / jars()[0].file).unlink()
    (folder / jars()[1].file).write_bytes((folder / jars()[1].file).read_bytes()[:-1])
    assert amiss(folder) == [jars()[0].file, jars()[1].file]
    assert amiss(kafka_jars()) == []


def test_one_that_was_killed_in_the_middle_leaves_nothing_that_is_taken_for_whole(repository: Path) -> None:
    folder = cache() / f"kafka-{KAFKA}"
    fetching = subprocess.Popen([sys.executable, "-c", FETCH], start_new_session=True, stdout=subprocess.DEVNULL)
    while not list(folder.with_name(f"{folder.name}.part").glob("*")):
        assert fetching.poll() is None
    os.killpg(fetching.pid, 9)
    fetching.wait()
    assert not folder.exists()
    assert amiss(kafka_jars()) == []


def test_two_that_want_them_at_once_fetch_them_once(repository: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [each.communicate()[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert sum("Fetching" in each for each in said) == 1


def test_a_jar_that_is_not_what_it_must_be_is_not_used(repository: Path) -> None:
    jar = jars()[3]
    (repository / jar.group / jar.name / jar.version / "jars" / f"{jar.name}.jar").write_bytes(b"half of i")
    with pytest.raises(RunError, match=f"1 of them came not or damaged, {jar.file}"):
        kafka_jars()
    assert not (cache() / f"kafka-{KAFKA}").exists()


def test_without_the_net_it_is_said_what_cannot_be_reached_and_what_to_do(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Divy.default.ivy.user.dir={empty.parent / 'ivy'} {NO_NET}")
    servers.need_java()
    with pytest.raises(RunError) as caught:
        kafka_jars()
    assert "https://repo1.maven.org/maven2/" in caught.value.what
    assert "Connection refused" in caught.value.what
    assert str(empty) in caught.value.fix


def test_without_pyspark_it_is_said_what_to_install(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    servers.need_java()
    with pytest.raises(RunError, match="Ivy of PySpark, which is not installed") as caught:
        kafka_jars()
    assert "strandline[spark,kafka]" in caught.value.fix


def test_without_java_it_is_said_what_to_install(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RunError, match="Kafka needs Java 17 or newer, and no java was found") as caught:
        kafka_jars()
    assert "openjdk-17-jre-headless" in caught.value.fix


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers.need_java()
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(RunError, match=r"cannot be kept in .*: Not a directory") as caught:
        kafka_jars()
    assert "XDG_CACHE_HOME" in caught.value.fix

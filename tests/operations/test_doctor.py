"""What the doctor finds wrong, and how it says it is mended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from strandline.model.time import Instant
from strandline.operations import doctor
from strandline.operations.doctor import Finding, examine
from strandline.store.manifests import Manifest, Manifests, Tick
from strandline.store.storage import storage_at


def test_a_healthy_machine_has_nothing_wrong_but_perhaps_java(tmp_path: Path) -> None:
    found = {each.about: each for each in examine(str(tmp_path / "state"))}
    assert [about for about, each in found.items() if each.verdict == "wrong" and about != "Java"] == []
    assert {
        "Python",
        "Java",
        "workers",
        "memory",
        "temporary files",
        "ports",
        "clock",
        "state",
        "packages for spark",
    } <= set(found)
    assert [each for each in found.values() if each.verdict != "ok" and not each.fix] == []


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = doctor.java()
    assert (found.verdict, "no java was found" in found.said, "apt-get install" in found.fix) == ("wrong", True, True)


def test_of_java_it_says_which_version_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.5\" 2024-10-15' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.java().said == f"21.0.5, {java}"


@pytest.mark.parametrize(("there", "verdict"), [(10**9, "wrong"), (1_900_000_000, "warning"), (10**12, "ok")])
def test_little_memory_is_told(there: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert doctor.memory(there).verdict == verdict


def test_a_folder_for_temporary_files_that_cannot_be_written_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/1")
    first = next(doctor.folders(None))
    assert (first.about, first.verdict, "TMPDIR" in first.fix) == ("temporary files", "wrong", True)


def test_workers_that_cannot_import_the_package_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text("raise ImportError('another one')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor.workers()
    assert (found.verdict, found.said.endswith("another one")) == ("wrong", True)


def test_another_python_for_workers_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    found = doctor.workers()
    assert (found.verdict, sys.executable in found.said) == ("warning", True)


def test_a_clock_behind_the_state_is_wrong(tmp_path: Path) -> None:
    tick = Tick(number=0, now=Instant.of("2100-01-01T00:00:00Z"), edges={})
    Manifests(storage_at(tmp_path)).commit(Manifest(flow="f", incarnation="i", run="r", tick=tick))
    (found,) = doctor.time(str(tmp_path))
    assert (found.verdict, "before the last tick" in found.said) == ("wrong", True)


def test_a_state_that_is_damaged_is_wrong_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/000000000000.json").write_text("{", encoding="utf-8")
    found = doctor.kept(str(tmp_path))
    assert isinstance(found, Finding)
    assert (found.verdict, "damaged" in found.said) == ("wrong", True)


def test_looking_at_a_place_without_state_leaves_nothing_there(tmp_path: Path) -> None:
    assert doctor.kept(str(tmp_path / "state")).said.endswith("it can be made")
    assert not (tmp_path / "state").exists()

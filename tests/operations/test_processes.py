"""Servers as processes of their own: known by a lock, ended with their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.errors import RunError
from strandline.operations.processes import Process, alone, until

SLEEP = ["sleep", "1000"]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path / "server", "sleeper")
    yield made
    made.kill()


def test_it_is_found_again_by_its_folder_and_is_nobodys_child(process: Process) -> None:
    process.start(SLEEP)
    again = Process(process.folder, process.name)
    assert again.runs
    with pytest.raises(ChildProcessError):
        os.waitpid(again.pid, os.WNOHANG)


def test_it_cannot_be_started_twice(process: Process) -> None:
    process.start(SLEEP)
    pid = process.pid
    with pytest.raises(RunError, match="runs already"):
        process.start(SLEEP)
    assert process.pid == pid


def test_it_can_be_started_while_others_look_whether_it_runs(process: Process) -> None:
    looks = "from strandline.operations.processes import *\nwhile True: Process(Path(sys.argv[1]), 'sleeper').runs"
    process.start(SLEEP)
    process.kill()
    looker = subprocess.Popen([sys.executable, "-c", f"import sys\n{looks}", str(process.folder)])
    try:
        for _ in range(10):
            process.start(SLEEP)
            process.kill()
    finally:
        looker.kill()
        looker.wait()


def test_a_number_that_another_process_has_got_is_not_taken_for_it(process: Process) -> None:
    process.start(SLEEP)
    process.kill()
    (process.folder / "sleeper.pid").write_text(str(os.getpid()), encoding="ascii")
    assert not process.runs
    process.stop()  # would end these tests


def test_one_that_is_paused_can_be_stopped(process: Process) -> None:
    process.start(SLEEP)
    process.pause()
    assert Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").split()[2] == "T"
    process.stop()
    assert not process.runs


def test_one_that_does_not_end_when_it_is_asked_is_killed(process: Process) -> None:
    process.start(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
    assert until(lambda: "deaf" in process.out.read_text(encoding="utf-8"), 10.0)
    process.stop(within=0.3)
    assert not process.runs


def test_what_it_prints_is_kept(process: Process) -> None:
    process.start(["sh", "-c", "echo said; echo also >&2"])
    assert process.ended(within=10.0)
    assert process.out.read_text(encoding="utf-8") == "said\nalso\n"


def owned(folder: Path, scratch: Path) -> tuple[subprocess.Popen[bytes], Process]:
    """A process that is ended with another, and that other one."""
    owner = subprocess.Popen(SLEEP)
    process = Process(folder, "sleeper")
    process.start(SLEEP, owner=owner.pid, scratch=scratch)
    return owner, process


def guards(owner: int) -> list[str]:
    """The processes that watch over what this owner has."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # one that has ended
            words = path.read_bytes().split(b"\0")
            found += [path.parent.name] if words[0] == b"sh" and words[4:5] == [str(owner).encode()] else []
    return found


@pytest.mark.slow
def test_it_ends_when_its_owner_is_killed_and_its_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "scratch" / "server"
    owner, process = owned(folder, tmp_path / "scratch")
    time.sleep(1.2)  # its guard has looked at least once, and left it alone
    assert process.runs
    assert len(guards(owner.pid)) == 1
    owner.kill()
    owner.wait()
    assert process.ended(within=10.0)
    assert until(lambda: not folder.parent.exists(), 10.0)


@pytest.mark.slow
def test_its_folder_stays_when_it_ends_before_its_owner(tmp_path: Path) -> None:
    owner, process = owned(tmp_path / "server", tmp_path)
    process.kill()
    assert until(lambda: not guards(owner.pid), 10.0)
    assert process.out.exists()
    owner.kill()
    owner.wait()


@pytest.mark.slow
def test_only_one_is_within_and_one_that_is_killed_leaves(tmp_path: Path) -> None:
    stays = (
        "import sys, time; from pathlib import Path; from strandline.operations.processes import alone\n"
        "with alone(Path(sys.argv[1])): print('within', flush=True); time.sleep(1000)"
    )
    other = subprocess.Popen([sys.executable, "-c", stays, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"within\n"
    waits = subprocess.Popen([sys.executable, "-c", stays, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(1.5)
    for each in (other, waits):
        each.send_signal(signal.SIGKILL)
        each.communicate()
    with alone(tmp_path / "lock"):
        assert other.returncode == waits.returncode == -signal.SIGKILL

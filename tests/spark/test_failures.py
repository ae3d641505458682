from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from strandline.errors import RunError, StateError
from strandline.spark.failures import is_of_a_library, told_by

TRACE = 'Failed when Python streaming data source perform latestOffset: Traceback:\n  File "x.py", line 3\n'


def test_an_error_of_ours_comes_back_as_itself() -> None:
    told = told_by(RuntimeError(f"{TRACE}strandline.errors.StateError: It is damaged.\n  fix: Mend it.\n"))
    assert (type(told), told.args) == (StateError, ("It is damaged.", "Mend it."))


def refused_by_java() -> ConnectionError:
    with pytest.raises(ConnectionRefusedError) as raised:
        exec(compile("raise ConnectionRefusedError(111, 'Connection refused')", "/lib/py4j/clientserver.py", "exec"))
    return raised.value


@pytest.mark.parametrize("raised", [refused_by_java(), Py4JError("An error occurred while calling o68.isActive")])
def test_a_java_process_that_is_gone_is_said_to_be(raised: Exception) -> None:
    told = told_by(raised)
    assert str(told).startswith("Spark's Java process is gone")
    assert isinstance(told, RunError)


def test_a_server_of_a_sinks_that_refuses_is_not_taken_for_java() -> None:
    told = told_by(ConnectionRefusedError(111, "Connection refused"))
    assert str(told).startswith("The run failed: ConnectionRefusedError: [Errno 111]")


def test_what_is_a_librarys_file_is_told_by_more_than_the_name_of_a_folder() -> None:
    assert is_of_a_library("/tmp/shipped.zip/strandline/spark/failures.py")
    assert is_of_a_library(str(pyspark.__file__))
    assert not is_of_a_library("/home/me/strandline/flow.py")
    assert not is_of_a_library("/home/me/jobs.py")


class Unreachable:
    """An error of Java's that can no more be asked for its text."""

    _target_id = "o1"
    _gateway_client: object

    def __init__(self) -> None:
        self._gateway_client = self

    def send_command(self, command: str) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    converters: tuple[object, ...] = ()


def test_an_error_of_java_whose_process_is_gone_cannot_be_asked_and_says_so() -> None:
    told = told_by(Py4JJavaError("An error occurred while calling o1.collectToPython.\n", Unreachable()))
    assert isinstance(told, RunError)
    assert told.what.startswith("Spark's Java process is gone: [Errno 111]")


KILLED_ONCE = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
import strandline as sl

folder = Path(sys.argv[1])

def kill_java_once(rows, tick):
    if tick.tick == 2 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

flow = sl.Flow("killed")
events = flow.source("events", sl.Generator(seed=1, rows=5_000), time="at")
events.sink("out", sl.Files(str(folder / "out")).write(format="json"), rows="append", columns=["n"])
events.sink("killer", sl.ForeachTick(kill_java_once), rows="append")
run = flow.run(state=folder / "state", until="caught_up", max_rows_per_tick=1_000, restarts=1)
print("restarts", run.progress["restarts"])
"""


@pytest.mark.slow
def test_a_restart_after_the_java_process_was_killed_finds_a_new_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_ONCE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "restarts 1" in done.stdout, done.stderr
    lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(5_000))
    assert (tmp_path / "killed").exists()


def test_an_error_of_a_library_is_told_by_its_last_line() -> None:
    told = told_by(RuntimeError(f"{TRACE}json.decoder.JSONDecodeError: Expecting value\n"))
    assert "The run failed: JSONDecodeError (x.py, line 3): Expecting value" in str(told)


WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/env/site-packages/pyspark/worker.py", line 90, in main
    process()
  File "/home/ann/flow.py", line 44, in score
    raise OutOfStock("none left")
flow.OutOfStock: none left
"""


def test_what_a_users_function_raised_in_a_worker_is_told_with_its_place_whatever_its_name() -> None:
    told = told_by(RuntimeError(WORKER))
    assert "The run failed: OutOfStock (/home/ann/flow.py, line 44): none left" in str(told)


def test_what_java_raised_is_told_and_not_which_call_raised_it() -> None:
    text = "An error occurred while calling o289.collectToPython.\n: org.apache.spark.SparkException: Job 3 cancelled\n\tat x"
    assert "The run failed: SparkException: Job 3 cancelled" in str(told_by(RuntimeError(text)))


def test_what_was_raised_in_the_driver_is_told_with_its_kind() -> None:
    assert "The run failed: KeyError: 'prices'" in str(told_by(KeyError("prices")))
    assert "The run failed: TimeoutError\n" in str(told_by(TimeoutError()))

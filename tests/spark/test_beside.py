"""Publishing goes on beside the next tick, and keeps nobody from leaving."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strandline.spark.beside import Beside

STUCK = """
import threading
from strandline.spark.beside import Beside
Beside("stuck").submit(threading.Event().wait)
raise KeyboardInterrupt
"""


def test_a_process_that_is_interrupted_does_not_wait_for_what_is_stuck() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, timeout=60, check=False)
    assert b"KeyboardInterrupt" in done.stderr


def test_what_was_raised_beside_is_raised_to_who_asks_and_not_when_it_is_closed() -> None:
    Beside("idle").close()
    beside = Beside("fails")
    beside.result()
    beside.submit(int, "1")
    beside.submit(int, "x")
    beside.close()
    with pytest.raises(ValueError, match="invalid literal"):
        beside.result()

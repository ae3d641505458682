from __future__ import annotations

import os
import subprocess
import sys
from signal import SIGCONT

WORK = """
import sys, threading
from strandline.spark.points import reach

def tick():
    for number in range(100):
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
        reach("read", number)

threading.Thread(target=tick).start()
"""


def test_the_thread_that_reaches_a_point_goes_no_further() -> None:
    environment = {**os.environ, "STRANDLINE_AT": "read:40=SIGSTOP"}
    command = [sys.executable, "-c", WORK]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
            assert child.stdout is not None
            assert [child.stdout.readline() for _ in range(41)][-1] == "40\n"
            os.set_blocking(child.stdout.fileno(), False)
            assert child.stdout.readline() == ""
            os.set_blocking(child.stdout.fileno(), True)
            os.kill(child.pid, SIGCONT)
            assert child.stdout.read().endswith("99\n")
        finally:
            child.kill()

"""`strandline run`: run a flow, with a plain line for each tick on stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from strandline.cli.failing import WrongUse
from strandline.cli.finding import find_flow
from strandline.cli.following import Follower
from strandline.errors import StrandlineError
from strandline.store.storage import storage_at

Place = Annotated[str, Argument(metavar="FILE[:FLOW]", help="The Python file that makes the flow.", show_default=False)]
State = Annotated[str, Option(help="Where the flow's state is: a folder, or s3://, gs://, az://.", show_default=False)]


def run(
    place: Place,
    state: State,
    until: Annotated[str, Option(help="forever; caught_up: stop when all is read; end: batch.")] = "forever",
    batch_interval: Annotated[str, Option(help="The least time from tick to tick.")] = "1s",
    from_savepoint: Annotated[str | None, Option(help="Go back to this savepoint first.")] = None,
    max_rows_per_tick: Annotated[int | None, Option(help="Of each source; otherwise it adapts itself.")] = None,
    max_bytes_per_tick: Annotated[int | None, Option(help="Of each source.", show_default="no limit")] = None,
    retain: Annotated[int, Option(help="How many of the last ticks are kept, to make savepoints of.")] = 10,
    restarts: Annotated[int, Option(help="How often a run that failed is tried again.")] = 0,
    drop: Annotated[
        list[str] | None, Option(help="A stage, source or sink of the state to give up. Repeatable.")
    ] = None,
    acknowledge: Annotated[bool, Option("--acknowledge", help="Let sinks go on behind another incarnation.")] = False,
    every_tick: Annotated[
        bool, Option("--every-tick", help="A line also for ticks in which nothing happened.")
    ] = False,
    spark_log: Annotated[Path | None, Option(help="Where what Spark says goes.", show_default="a new file")] = None,
) -> None:
    """Run a flow from where its state says it is. Ctrl-C ends the tick that is being made, then the run."""
    flow: Any = find_flow(place)  # what sl.Flow makes can be run; the model's own cannot
    if not hasattr(flow, "run"):
        raise WrongUse(f"The flow {flow.name!r} is only a description.", fix="Make it with sl.Flow(...).")
    if find_spec("pyspark") is None:
        raise WrongUse("Spark is not installed.", fix="pip install 'strandline[spark]'")
    storage = storage_at(state)
    with _spark_log(spark_log) as (log, err):

        def say(line: str) -> None:
            print(line, file=err, flush=True)

        follower = Follower(storage, say, every_tick=every_tick)
        say(f"flow {flow.name!r}, state {storage.url}, starting Spark (its log: {log})")
        try:
            running = flow.run(
                state=state, until=until, batch_interval=batch_interval, from_savepoint=from_savepoint,
                max_rows_per_tick=max_rows_per_tick, max_bytes_per_tick=max_bytes_per_tick, retain=retain, restarts=restarts, drop=drop or (), acknowledged=acknowledge,
                wait=False,
            )  # fmt: skip
            for note in running.notes:
                say(note)
            with follower.following(running):
                running.wait()
        except StrandlineError:
            raise
        except Exception:
            say(f"what Spark said is in {log}")
            raise
        say(_ended(running, follower))


def _ended(run: Any, follower: Follower) -> str:
    head = run.head
    finished = head is not None and head.finished
    if follower.ticks == 0:
        return "finished before; there is nothing left to do" if finished else "stopped before the first tick"
    state = "finished" if finished else "stopped; windows stay open, and the next run goes on from here"
    ticks = "1 tick" if follower.ticks == 1 else f"{follower.ticks:,} ticks"
    return f"{ticks}, {follower.rows:,} rows: {state}"


@contextmanager
def _spark_log(wanted: Path | None) -> Iterator[tuple[Path, Any]]:
    """Lead what Spark's JVM and workers write to stderr into a file; give the file, and the stderr that people see.

    A process that is started inherits the descriptor 2, not `sys.stderr`.
    """
    if wanted is None:
        handle, name = tempfile.mkstemp(prefix="strandline-spark-", suffix=".log")
        os.close(handle)
        wanted = Path(name)
    try:
        log = wanted.open("ab")
    except OSError as error:
        raise WrongUse(f"The log {wanted} cannot be written: {error.strerror}.", fix="Name another file.") from error
    sys.stderr.flush()
    seen = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        with os.fdopen(os.dup(seen), "w", encoding="utf-8", errors="replace") as err:
            yield wanted, err
    finally:
        sys.stderr.flush()
        os.dup2(seen, 2)
        os.close(seen)
        log.close()

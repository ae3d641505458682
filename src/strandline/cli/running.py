"""`strandline run`: run a flow; on stderr a live panel where that is a terminal, else a plain line for each tick."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Option

from strandline.cli.completing import flow_files, savepoint_names, state_folders
from strandline.cli.failing import WrongUse
from strandline.cli.finding import find_flow, state_beside, the_only_state
from strandline.cli.following import Follower
from strandline.cli.live import LivePanel, can_be_drawn
from strandline.errors import StrandlineError
from strandline.model.flow import Flow
from strandline.model.nodes import SourceNode, Stateful
from strandline.model.options import Until, batch_interval_of
from strandline.model.time import Span
from strandline.operations.metrics import Endpoint, Metrics
from strandline.spark.clock import now
from strandline.spark.java import require_java, require_pyspark
from strandline.store.storage import storage_at

Place = Annotated[
    str | None,
    Argument(
        metavar="FILE[:FLOW]",
        help="The Python file that makes the flow.",
        show_default="flow.py",
        autocompletion=flow_files,
    ),
]
WHERE: Final = "Where the flow's state is: a folder, or s3://, gs://, az://."
State = Annotated[
    str,
    Option(
        help=WHERE,
        default_factory=the_only_state,
        show_default="the one in ./state",
        autocompletion=state_folders,
    ),
]


def run(
    place: Place = None,
    state: Annotated[
        str | None,
        Option(help=WHERE, show_default="state/FLOW beside FILE", autocompletion=state_folders),
    ] = None,
    until: Annotated[Until, Option(help="forever; caught_up: stop when all is read; end: batch.")] = "forever",
    batch_interval: Annotated[str, Option(help="The least time from tick to tick.")] = "1s",
    from_savepoint: Annotated[
        str | None, Option(help="Go back to this savepoint first.", autocompletion=savepoint_names)
    ] = None,
    max_rows_per_tick: Annotated[int | None, Option(min=1, help="Of each source; otherwise it adapts itself.")] = None,
    max_bytes_per_tick: Annotated[int | None, Option(min=1, help="Of each source.", show_default="no limit")] = None,
    retain: Annotated[int, Option(min=2, help="How many of the last ticks are kept, to make savepoints of.")] = 10,
    restarts: Annotated[int, Option(min=0, help="How often a run that failed is tried again.")] = 0,
    drop: Annotated[
        list[str] | None, Option(help="A stage, source or sink of the state to give up. Repeatable.")
    ] = None,
    acknowledge: Annotated[bool, Option("--acknowledge", help="Let sinks go on behind another incarnation.")] = False,
    every_tick: Annotated[
        bool, Option("--every-tick", help="A line also for ticks in which nothing happened.")
    ] = False,
    plain: Annotated[bool, Option("--plain", help="Lines in place of the live panel.")] = False,
    metrics_port: Annotated[
        int | None,
        Option(min=0, max=65535, help="Serve metrics for Prometheus there; 0: a free port.", show_default=False),
    ] = None,
    metrics_host: Annotated[str, Option(help="The address at which metrics are served.")] = "0.0.0.0",
    spark_log: Annotated[Path | None, Option(help="Where what Spark says goes.", show_default="a new file")] = None,
) -> None:
    """Run a flow from where its state says it is. Ctrl-C ends the tick that is being made, then the run."""
    flow: Any = find_flow(place)  # what sl.Flow makes can be run; the model's own cannot
    if not hasattr(flow, "run"):
        raise WrongUse(f"The flow {flow.name!r} is only a description.", fix="Make it with sl.Flow(...).")
    where = state_beside(place, flow) if state is None else state
    interval = batch_interval_of(batch_interval)
    storage = storage_at(where)
    with _spark_log(spark_log) as (log, err), ExitStack() as ends:

        def say(line: str) -> None:
            print(line, file=err, flush=True)

        metrics = _metrics(flow, interval, metrics_port, metrics_host)
        see = None if metrics is None else metrics[0].observe
        if metrics is not None:
            ends.enter_context(metrics[1])
            say(f"metrics: {metrics[1].url}")
        drawn = not (plain or every_tick) and can_be_drawn(err)
        follower = (
            LivePanel(storage, err, now, see=see) if drawn else Follower(storage, say, every_tick=every_tick, see=see)
        )
        require_pyspark()
        require_java()
        if state is None:
            say(f"no --state is given: {os.path.relpath(where)}, beside the flow, is taken")
        say(f"flow {flow.name!r}, state {storage.url}, starting Spark (its log: {log})")
        try:
            running = flow.run(
                state=where, until=until, batch_interval=interval, from_savepoint=from_savepoint,
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


def _metrics(flow: Flow, interval: Span, port: int | None, host: str) -> tuple[Metrics, Endpoint] | None:
    """The metrics of a run and where they are served, if they are wanted."""
    if port is None:
        return None
    nodes = [node.name for node in flow.nodes if isinstance(node, SourceNode | Stateful)]
    metrics = Metrics(flow.name, interval=interval, nodes=nodes)
    return metrics, Endpoint(metrics.registry, host=host, port=port)


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

    A process that is started inherits the descriptor 2, not `sys.stderr`. A file that nobody named is kept only if
    something went wrong and Spark said something.
    """
    kept = wanted is not None
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
        with (
            os.fdopen(os.dup(seen), "w", encoding="utf-8", errors="replace") as err,
            os.fdopen(os.dup(log.fileno()), "a", encoding="utf-8", errors="replace", buffering=1) as told,
            redirect_stderr(told),
        ):
            yield wanted, err
    except BaseException:
        kept = kept or wanted.stat().st_size > 0
        raise
    finally:
        sys.stderr.flush()
        os.dup2(seen, 2)
        os.close(seen)
        log.close()
        if not kept:
            wanted.unlink(missing_ok=True)

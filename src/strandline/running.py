"""A flow that can be run: the description, and the verbs that need the outer rings. This is `strandline.Flow`.

The model knows nothing of Spark; so what starts it stands here, outside of the rings, and imports it only when asked.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

from strandline.errors import CheckFailed, DescriptionError, OwnershipError, RunError
from strandline.model import flow as model
from strandline.model.options import Until, batch_interval_of, require_boolean, require_count
from strandline.model.sizes import KEYS, RATE
from strandline.model.time import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline.spark.run import Driver
    from strandline.spark.start import Start
    from strandline.store.manifests import Manifest

BACKOFF = Span.of("1s")
LONGEST_BACKOFF = Span.of("1m")
LOOK_BACK = 60  # ticks, of which a notebook is told
FINAL = (CheckFailed, DescriptionError, OwnershipError)
"""Failures that a restart cannot mend."""


@dataclass(slots=True)
class Flow(model.Flow):
    """A named flow. Making one starts nothing; `run` starts Spark.

    >>> flow = Flow("revenue")
    """

    def explain(self, *, rate: int = RATE, keys: int = KEYS) -> str:
        """What this flow means, in plain sentences: times, windows, triggers, what can be lost, what is promised.

        Each stage says when its results come, how much it remembers at this `rate` of events a second and with so many
        `keys`, and shows in an example, which is played, what comes when.
        """
        from strandline.operations.explaining import explain

        return explain(self, rate=rate, keys=keys)

    def run(
        self,
        *,
        state: str | PathLike[str],
        spark: Any = None,
        until: Until = "forever",
        batch_interval: str | timedelta | Span = "1s",
        from_savepoint: str | None = None,
        max_rows_per_tick: int | None = None,
        max_bytes_per_tick: int | None = None,
        retain: int = 10,
        restarts: int = 0,
        drop: Sequence[str] = (),
        acknowledged: bool = False,
        wait: bool = True,
    ) -> Run:
        """Run the flow on Spark, from where its state says it is.

        `until`: "forever"; "caught_up" reads what is there and stops with windows open; "end" is batch: time stands still
        until everything is read, then goes to its end. `max_rows_per_tick` and `max_bytes_per_tick` bound what a tick takes of
        each source; without the first the number adapts itself to how long ticks take. `retain` is how many of the last ticks are kept, to make savepoints
        of; `restarts` is how often a failed run is tried again; `drop` names stages, sources and sinks of the state that the
        flow has no more; `acknowledged` lets sinks take over what another incarnation left, and go on with a target that does
        not have what was published before. With `wait=False` it returns at once; `Run.wait()` waits.
        """
        if model.BEING_READ.get():
            raise RunError(
                "The file runs its flow while it is read.",
                fix="Put flow.run(...) under if __name__ == '__main__':, so that the flow can be read without running it.",
            )
        if until not in get_args(Until):
            raise DescriptionError(f"until={until!r} is not known.", fix="Give 'forever', 'caught_up' or 'end'.")
        require_count("restarts", restarts, least=0)
        require_count("retain", retain, least=2)
        for name, most in (("max_rows_per_tick", max_rows_per_tick), ("max_bytes_per_tick", max_bytes_per_tick)):
            if most is not None:
                require_count(name, most, least=1)
        if isinstance(drop, str) or not isinstance(drop, Sequence):
            raise DescriptionError(
                f"drop={drop!r} is no list of names.", fix="Give a list, such as drop=['per_minute']."
            )
        require_boolean("acknowledged", acknowledged)
        require_boolean("wait", wait)
        interval = batch_interval_of(batch_interval)
        self.check()
        from strandline.spark.java import require_pyspark

        require_pyspark()
        from strandline.spark.run import Options
        from strandline.spark.start import Start

        options = Options(
            until=until, batch_interval=interval, max_rows_per_tick=max_rows_per_tick,
            max_bytes_per_tick=max_bytes_per_tick, retain=retain, acknowledged=acknowledged,
        )  # fmt: skip
        start = Start(
            flow=self, state=state, spark=spark, options=options, from_savepoint=from_savepoint, drop=tuple(drop)
        )
        run = Run(self.name, start, restarts)
        run.begin()
        if not wait:
            return run
        for note in run.notes:  # who waits cannot ask for them
            logging.getLogger("strandline").warning("%s", note)
        return run.wait()


class Run:
    """A flow that is running, or has run."""

    def __init__(self, name: str, start: Start, restarts: int) -> None:
        self.name = name
        self._start, self._restarts_left = start, restarts
        self._driver: Driver | None = None
        self._ended = threading.Event()
        self._ordered: str | None = None
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"flow {name}", daemon=True)

    def begin(self) -> None:
        """Make the first driver, so that what is wrong is said here and now; then go on in a thread."""
        self._driver = self._start.driver(0)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end; raise what made it fail. Ctrl-C and SIGTERM end the tick that is being made, then the run."""
        with _signals(self.stop):
            while not self._ended.wait(0.2 if timeout is None else min(0.2, timeout)):
                if timeout is not None and (timeout := timeout - 0.2) <= 0:
                    return self
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        """End the tick that is being made, then the run. Windows stay open; the next run goes on."""
        self._order("stop")

    def drain(self) -> None:
        """Read what is there, let time go to its end, show everything: then the flow is finished."""
        self._order("drain")

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return not self._ended.is_set()

    @property
    def notes(self) -> list[str]:
        """What whoever starts the run should know: what starts anew because the flow was changed, say."""
        return list(self._start.notes)

    @property
    def head(self) -> Manifest | None:
        """What the last committed tick left."""
        return None if self._driver is None else self._driver.head

    @property
    def progress(self) -> dict[str, Any]:
        """Where the flow is: its last tick, watermarks, rows of state."""
        head = self.head
        if head is None:
            return {"flow": self.name, "tick": None, "running": self.running}
        return {
            "flow": self.name,
            "running": self.running,
            "tick": head.number,
            "watermarks": {name: edge.after for name, edge in head.tick.edges.items()},
            "state_rows": {name: stage.rows for name, stage in head.stages.items()},
            "backlog": {name: sum(left.values()) for name, left in head.journal.get("backlog", {}).items()},
            "finished": head.finished,
            "restarts": head.restarts,
        }

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the facts of its last ticks."""
        from strandline.operations.overview import overview
        from strandline.operations.overview_html import overview_html
        from strandline.spark.clock import now
        from strandline.store.journal import records
        from strandline.store.storage import storage_at

        head = self.head
        found = [] if head is None else list(records(storage_at(self._start.state), since=head.number - LOOK_BACK))
        return overview_html(self.name, overview(found), now(), running=self.running)

    def _order(self, what: str) -> None:
        self._ordered = what
        if what == "stop":
            self._stopping.set()
        if self._driver is not None:
            getattr(self._driver, what)()

    def _work(self) -> None:
        pause = BACKOFF
        try:
            while (failure := self._attempt()) is not None:
                self._restarts_left -= 1
                if self._restarts_left < 0 or self._stopping.wait(pause / 1_000_000):
                    raise failure
                pause = min(Span(2 * pause), LONGEST_BACKOFF)
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()

    def _attempt(self) -> Exception | None:
        """Run the driver, a new one if that has failed; a failure that another attempt may mend is given back."""
        assert self._driver is not None, "begin() made it"
        try:
            if self._driver.failure is not None:
                self._driver = self._start.driver(self._driver.restarts + 1)
                if self._ordered is not None:
                    getattr(self._driver, self._ordered)()
            self._driver.run()
        except FINAL:
            raise
        except Exception as error:
            return error
        return None


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """While waiting in the main thread, Ctrl-C and SIGTERM ask the run to stop; a second Ctrl-C interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, old[signal.SIGINT])
        stop()

    old = {each: signal.signal(each, asked) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in old.items():
            signal.signal(each, handler)

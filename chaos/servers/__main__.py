"""`python -m chaos.servers`: the matrix as a table; exit code 1 if anything is wrong, or was tried too seldom."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from chaos.matrix import Matrix
from chaos.servers.drivers import fire_at_drivers
from chaos.servers.faults import COMMIT, Fire
from chaos.servers.outlets import Charges, Entries, Outlet, Table, Topic
from chaos.trials import IN_THE_END, Trial
from tests.servers import own_kafka, own_postgres, own_redis
from tests.sinks.http_calls.paying import Payments, serving

PARTS: Final = ("kafka", "postgres", "redis", "http", "drivers")
LEAST_IN_ALL: Final = 300
LEAST: Final = {"Redis": 50, "Http": 50, "Kafka": 50, "PostgreSQL": 50}
# A driver that is stopped inside a transaction holds readers back for its timeout, and this long at most.
KAFKA: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
REDIS: Final = {"appendonly": "yes", "appendfsync": "always"}


class Firing:
    """All trials, and the servers that they are done to."""

    def __init__(self, root: Path, *, quick: bool) -> None:
        self.root, self.quick = root, quick
        self.trials: list[Trial] = []

    def note(self, trial: Trial) -> Trial:
        """Keep a trial, and show it."""
        self.trials.append(trial)
        print(trial.line(), flush=True)
        return trial

    def fire(self, outlet: Outlet, stack: ExitStack) -> Fire:
        """An outlet under fire, in a folder of its own."""
        folder = self.root / f"outlet-{len(list(self.root.iterdir()))}"
        folder.mkdir()
        fire = Fire(outlet, folder, self.note, stack.enter_context(outlet.watched()))
        assert fire.publish(1) == 0, (folder / "log").read_text()
        return fire

    def some(self, count: int) -> int:
        """So many trials, or two of them."""
        return 2 if self.quick else count

    def spread(self, first: int, last: int, count: int) -> list[int]:
        """Moments between two, evenly."""
        count = self.some(count)
        return [first + (last - first) * place // max(count - 1, 1) for place in range(count)]

    def play(self, parts: Collection[str]) -> None:
        """These parts, one after the other."""
        with ExitStack() as stack:
            if {"kafka", "drivers"} & {*parts}:
                kafka = stack.enter_context(own_kafka(KAFKA))
            if {"postgres", "drivers"} & {*parts}:
                postgres = stack.enter_context(own_postgres())
            if "kafka" in parts:
                self._kafka(self.fire(Topic(kafka), stack))
            if "postgres" in parts:
                for upserted in (False, True):
                    self._postgres(self.fire(Table(postgres, upserted), stack))
            if "redis" in parts:
                self._redis(self.fire(Entries(stack.enter_context(own_redis(**REDIS))), stack))
            if "http" in parts:
                payments = Payments()
                self._http(self.fire(Charges(payments, stack.enter_context(serving(payments))), stack))
            if "drivers" in parts:
                fire_at_drivers(self.root, kafka, postgres, self.note, quick=self.quick)

    def _kafka(self, fire: Fire) -> None:
        fire.kill(self.some(60))
        fire.kill_at_any_time(self.some(10), longest=4.0)
        fire.wake(self.spread(3, 30, 8))
        fire.two_at_once(self.some(3))
        fire.kill_server(self.spread(2, 30, 10))
        fire.finish()

    def _postgres(self, fire: Fire) -> None:
        fire.kill(self.some(30))
        fire.kill_at_any_time(self.some(5), longest=3.0)
        fire.wake(self.spread(4, 40, 5))
        fire.two_at_once(self.some(2))
        fire.kill_server(self.spread(4, 40, 6))
        fire.cut(self.spread(4, 40, 8), [COMMIT, COMMIT, b"COPY", b"SET incarnation"])
        fire.finish()

    def _redis(self, fire: Fire) -> None:
        fire.kill(self.some(40))
        fire.kill_at_any_time(self.some(4), longest=2.0)
        fire.wake(self.spread(10, 40, 4))
        fire.two_at_once(self.some(2))
        fire.kill_server(self.spread(10, 40, 6))
        fire.cut(self.spread(10, 40, 6))
        fire.finish()

    def _http(self, fire: Fire) -> None:
        fire.kill(self.some(50))
        fire.kill_at_any_time(self.some(5), longest=2.0)
        fire.wake(self.spread(3, 40, 4))
        fire.two_at_once(self.some(2))
        fire.finish()


def too_few(trials: Sequence[Trial]) -> list[str]:
    """What was not tried as often as it should be."""
    faults = [trial for trial in trials if trial.fault != IN_THE_END]
    counts = Counter(kind for trial in faults for kind in LEAST if trial.how.startswith(kind))
    found = [f"{kind}: {counts[kind]} of {least}" for kind, least in LEAST.items() if counts[kind] < least]
    return found + ([f"in all: {len(faults)} of {LEAST_IN_ALL}"] if len(faults) < LEAST_IN_ALL else [])


def play(folder: Path, parts: Collection[str], *, quick: bool) -> list[Trial]:
    """Fire at these parts, one after the other."""
    firing = Firing(folder, quick=quick)
    firing.play(parts)
    return firing.trials


MATRIX: Final = Matrix(
    program="chaos.servers", about=__doc__, parts=PARTS, play=play, too_few=too_few,
    results="chaos_servers", title="Effects that happen once, under fire",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(MATRIX.main())

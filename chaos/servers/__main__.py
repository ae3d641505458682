"""`python -m chaos.servers`: the matrix as a table; exit code 1 if anything is wrong, or was tried too seldom."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from chaos.servers.drivers import fire_at_drivers
from chaos.servers.faults import COMMIT, Fire
from chaos.servers.outlets import Charges, Entries, Outlet, Table, Topic
from chaos.trials import IN_THE_END, Trial, table, write
from tests.servers import own_kafka, own_postgres, own_redis
from tests.sinks.http_calls.paying import Payments, serving

PARTS: Final = ("kafka", "postgres", "redis", "http", "drivers")
LEAST_IN_ALL: Final = 300
LEAST: Final = {"Redis": 50, "Http": 50, "Kafka": 50, "PostgreSQL": 50}
# A driver that is stopped inside a transaction holds readers back for its timeout, and this long at most.
KAFKA: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
REDIS: Final = {"appendonly": "yes", "appendfsync": "always"}


class Matrix:
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

    def play(self, parts: list[str]) -> None:
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


def too_few(trials: list[Trial]) -> list[str]:
    """What was not tried as often as it should be."""
    faults = [trial for trial in trials if trial.fault != IN_THE_END]
    counts = Counter(kind for trial in faults for kind in LEAST if trial.how.startswith(kind))
    found = [f"{kind}: {counts[kind]} of {least}" for kind, least in LEAST.items() if counts[kind] < least]
    return found + ([f"in all: {len(faults)} of {LEAST_IN_ALL}"] if len(faults) < LEAST_IN_ALL else [])


def main() -> int:
    """Play, print, and keep the result of a whole run."""
    parser = argparse.ArgumentParser(prog="python -m chaos.servers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a part of each; nothing is written")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strandline-chaos-") as name:
        matrix = Matrix(Path(name), quick=given.quick)
        matrix.play(given.only or list(PARTS))
    trials = matrix.trials
    print("\n" + table(trials))
    whole = not (given.only or given.quick)
    wrong = [trial.line() for trial in trials if not trial.fine] + (too_few(trials) if whole else [])
    if whole:
        write(trials, time.monotonic() - began, "chaos_servers", "Effects that happen once, under fire")
    faults = sum(trial.fault != IN_THE_END for trial in trials)
    print(f"\n{faults} faults, {(time.monotonic() - began) / 60:.1f} minutes", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

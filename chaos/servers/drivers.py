"""Drivers of a whole flow between Kafka and PostgreSQL: killed at each point, stopped and woken, their servers killed."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL
from typing import Any, Final

import psycopg
from confluent_kafka import Producer

from chaos.judging import Rows, Verdict, differing
from chaos.orders import NAMED_ERROR
from chaos.processes import is_stopped, wait_until, workers_of
from chaos.servers.flow import BOUND, MINUTE, Places
from chaos.servers.outlets import Server, out_of_order
from chaos.stage import finish, last_error, start
from chaos.trials import IN_THE_END, Trial
from strandline.model.time import Instant, Span
from tests.sinks.kafka.broker import new_topic
from tests.sinks.kafka.reader import Seen, read, reading

FAULT: Final = "SIGKILL of the driver"
POINTS: Final = ("offsets", "read", "ticked", "stepped", "committed", "publishing", "published", "recorded", "resumed")
PARTITIONS, KEYS, BATCH = 3, 5, 90
STEP: Final = 700_000  # microseconds between two events
START: Final = Instant.of("2026-01-01T12:00:00Z")
HOW: Final = "a flow from Kafka to Kafka and PostgreSQL"


@dataclass
class Between:
    """The flow, its topics and tables, and how many events were sent so far."""

    folder: Path
    places: Places
    servers: Sequence[Server]
    note: Callable[[Trial], Trial]
    seen: Sequence[Seen] = ()
    sent: int = 0

    def send(self) -> None:
        """More events, in order of time, over all partitions; a key stays in its partition."""
        producer = Producer({"bootstrap.servers": self.places.kafka, "enable.idempotence": True})
        for n in range(self.sent, self.sent + BATCH):
            key = n % KEYS
            row = {"key": f"k{key}", "n": n, "at": Instant(START + n * STEP).text}
            producer.produce(self.places.events, json.dumps(row), partition=key % PARTITIONS)
        assert producer.flush(60) == 0
        self.sent += BATCH

    def kill(self, points: Sequence[str]) -> None:
        """Send more, and kill the driver when it comes to a point, in whatever tick."""
        for point in points:
            self.send()
            ended = finish(self._start(at=f"{point}:*"))
            trial = Trial(fault=FAULT, how=HOW, what=f"at {point}")
            trial.amiss = "" if ended == -SIGKILL else f"it ended with {ended}: {last_error(self.folder)}"
            self._judged(trial, whole=False)

    def wake(self, points: Sequence[str]) -> None:
        """Stop the driver at a point, let another go on to the end, and wake it."""
        for point in points:
            self.send()
            zombie = self._start(at=f"{point}:*", signal="SIGSTOP")
            wait_until(lambda zombie=zombie: zombie.poll() is not None or is_stopped(zombie.pid))  # type: ignore[misc]
            began = time.monotonic()
            replaced = finish(self._start())
            trial = Trial(fault="a zombie wakes", how=HOW, what=f"stopped at {point}")
            trial.recovery = time.monotonic() - began
            with suppress(ProcessLookupError):  # it may have ended before it came to the point
                os.kill(zombie.pid, SIGCONT)
            ended = finish(zombie)
            trial.error, trial.told = last_error(self.folder)
            if replaced or ended != NAMED_ERROR:
                trial.amiss = f"its replacement ended with {replaced}, it with {ended}"
            self._judged(trial, whole=True)

    def kill_servers(self, points: Sequence[str]) -> None:
        """Kill each server while the driver stands at a point; the driver goes on when it is back."""
        for point in points:
            for server in self.servers:
                self.send()
                driver = self._start(at=f"{point}:*", signal="SIGSTOP")
                wait_until(lambda driver=driver: driver.poll() is not None or is_stopped(driver.pid))  # type: ignore[misc]
                server.kill()
                again = threading.Thread(target=server.restart)
                again.start()
                with suppress(ProcessLookupError):
                    os.kill(driver.pid, SIGCONT)
                # It is stopped at that point in every tick.
                ended = _finish_all_stops(driver)
                again.join()
                trial = Trial(fault="SIGKILL of the server", how=HOW, what=f"{type(server).__name__} at {point}")
                trial.amiss = "" if ended == 0 else f"the driver ended with {ended}: {last_error(self.folder)}"
                self._judged(trial, whole=True)

    def kill_workers(self, count: int) -> None:
        """Kill one of Spark's workers while a driver runs; its task is tried again."""
        for number in range(count):
            self.send()
            driver = self._start()
            wait_until(lambda driver=driver: driver.poll() is not None or bool(workers_of(driver.pid)))  # type: ignore[misc]
            time.sleep(0.2 * number)
            killed = _killed(workers_of(driver.pid)[:1])
            ended = finish(driver)
            trial = Trial(fault="SIGKILL of a worker", how=HOW, what=f"{0.2 * number:.1f} s after the first one came")
            if not killed:
                trial.amiss = "no worker was there to be killed"
            elif ended:
                trial.amiss = f"the driver ended with {ended}: {last_error(self.folder)}"
            self._judged(trial, whole=True)

    def finish(self) -> None:
        """Let the flow come to its end, and see what is there."""
        self.send()
        ended = finish(self._start())
        trial = Trial(fault=IN_THE_END, how=HOW)
        trial.amiss = "" if ended == 0 else f"it ended with {ended}: {last_error(self.folder)}"
        self._judged(trial, whole=True)

    def _start(self, **options: Any) -> Any:
        return start(self.folder, program="chaos.servers.flow", **options)

    def _judged(self, trial: Trial, *, whole: bool) -> Trial:
        found, expected = self._found(), self._expected()
        verdicts = [differing(found[name], rows) for name, rows in expected.items()]
        if not whole:  # what is missing may come
            verdicts = [Verdict(duplicated=each.duplicated, wrong=each.wrong) for each in verdicts]
        trial.verdict = sum(verdicts, Verdict())
        missing = set(self.seen) - set(read(self.places.kafka, self.places.copies))
        if missing:
            trial.amiss += f" {len(missing)} messages were seen, and are gone"
        trial.amiss += " ".join(out_of_order(self.seen)[:3])
        return self.note(trial)

    def _expected(self) -> dict[str, Rows]:
        """What plain Python makes of the events that were sent."""
        last = {key: max(range(key, self.sent, KEYS), default=-1) for key in range(KEYS)}
        greatest = [max(last[key] for key in range(KEYS) if key % PARTITIONS == p) for p in range(PARTITIONS)]
        watermark = START + min(greatest) * STEP - int(Span.of(BOUND))
        minute = int(Span.of(MINUTE))
        sums: dict[tuple[str, int], tuple[int, int]] = {}
        for n in range(self.sent):
            at = START + n * STEP
            window = (f"k{n % KEYS}", at - at % minute)
            count, total = sums.get(window, (0, 0))
            sums[window] = count + 1, total + n
        closed = Counter((*window, *of) for window, of in sums.items() if window[1] + minute <= watermark)
        rows = Counter((f"k{n % KEYS}", n) for n in range(self.sent))
        return {"copies": rows, "copied": rows, "totals": closed, "per_minute": closed}

    def _found(self) -> dict[str, Rows]:
        copies = [json.loads(value or b"") for *_, value in read(self.places.kafka, self.places.copies)]
        last: dict[bytes | None, Any] = {}
        for _, _, key, value in read(self.places.kafka, self.places.totals):
            last[key] = json.loads(value or b"null")
        totals = [row for row in last.values() if row is not None]
        with psycopg.connect(self.places.postgres, autocommit=True) as connection:
            return {
                "copies": Counter((row["key"], row["n"]) for row in copies),
                "copied": Counter(_asked(connection, self.places.copied, "key, n")),
                "totals": Counter(
                    (row["key"], int(Instant.of(row["window_start"])), row["n"], row["sum"]) for row in totals
                ),
                "per_minute": Counter(
                    (key, int(Instant.of(at)), n, total)
                    for key, at, n, total in _asked(connection, self.places.per_minute, 'key, window_start, n, "sum"')
                ),
            }


def _killed(processes: Sequence[int]) -> bool:
    try:
        for each in processes:
            os.kill(each, SIGKILL)
    except ProcessLookupError:
        return False
    return bool(processes)


def _finish_all_stops(driver: Any) -> int:
    """Let a driver go on whenever it stops itself, until it ends."""

    def over() -> bool:
        if driver.poll() is None and is_stopped(driver.pid):
            os.kill(driver.pid, SIGCONT)
        return driver.poll() is not None

    wait_until(over, every=0.05)
    return finish(driver)


def _asked(connection: psycopg.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
        return []
    return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def fire_at_drivers(
    root: Path, kafka: Server, postgres: Server, note: Callable[[Trial], Trial], *, quick: bool
) -> None:
    """All that is done to drivers of the flow."""
    folder = root / "between"
    folder.mkdir()
    made = uuid.uuid4().hex[:8]
    events, copies = (new_topic(kafka.address, PARTITIONS) for _ in range(2))
    totals = new_topic(kafka.address, PARTITIONS, cleanup_policy="compact")
    places = Places(kafka.address, postgres.address, events, copies, totals, f"copied_{made}", f"per_minute_{made}")
    places.write(folder)
    with reading(kafka.address, places.copies) as seen:
        between = Between(folder, places, (kafka, postgres), note, seen)
        between.kill(("committed", "publishing") if quick else POINTS * 3)
        between.kill_workers(1 if quick else 8)
        between.wake(("publishing",) if quick else ("stepped", "committed", "publishing", "published"))
        between.kill_servers(("committed",) if quick else ("read", "committed", "publishing"))
        between.finish()

"""`python -m chaos.incidents`: ten incidents, each named with its cause within a minute; silence before them.

    python -m chaos.incidents [--clean 10] [--only NAME ...]

A flow reads a topic on a broker of its own, 300 events a second. `strandline status --health --json` is asked again and
again, as a probe would. First for ten clean minutes; then while the flow catches up after a minute's pause: nothing may
be found. Then incidents come one after the other: each has to be found with its right cause within 60 seconds; it is
ended, and the flow has to be found healthy again before the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.verdicts import Verdict, conclude
from chaos.incidents.flow import CLOSED, SLOW
from chaos.incidents.producing import PARTITIONS, Amiss, Stream
from strandline.clients.kafka import Cluster
from strandline.operations.topics import create
from tests.servers import own_kafka

WITHIN: Final = 60.0  # seconds
HEALTHY_AGAIN: Final = 420.0  # seconds; a loop of restarts is told of for five minutes
PAUSE: Final = 60.0
CALM: Final = 45.0  # seconds between two incidents
STARTING: Final = 90.0
ROOM: Final = "2500m"
SOURCE: Final = "events"

Found = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Shop:
    """A flow that runs in a process of its own, what writes its events, and a probe that looks at it."""

    folder: Path
    stream: Stream
    wanted: bool = False
    driver: subprocess.Popen[bytes] | None = None
    supervisor: threading.Thread | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def start(self) -> None:
        """Start the driver; when it fails it is started again, as those who run flows have it."""
        self.wanted = True
        self.supervisor = threading.Thread(target=self._supervise, daemon=True)
        self.supervisor.start()

    def _supervise(self) -> None:
        while self.wanted:
            with (self.folder / "log").open("ab") as log:
                command = [sys.executable, "-m", "chaos.incidents.flow", str(self.folder)]
                self.driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            self.driver.wait()

    def stop(self) -> None:
        """End the driver in good order."""
        self.wanted = False
        if self.driver is not None and self.supervisor is not None:
            self.driver.terminate()
            self.supervisor.join()

    def ask(self) -> list[Found]:
        """What health finds wrong now, by the command that a probe would call."""
        command = [sys.executable, "-m", "strandline", "status", "--state", str(self.state), "--health", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 4):
            raise RuntimeError(done.stderr)
        told: dict[str, Any] = json.loads(done.stdout)
        found = [finding for finding in told["findings"] if finding["severity"] != "notice"]
        if bool(found) is not (done.returncode == 4):
            raise RuntimeError(f"exit code {done.returncode} with {found}")
        return found

    def watch(self, seconds: float, enough: Callable[[list[Found]], bool]) -> tuple[float, list[Found]] | None:
        """Ask every two seconds until it is enough: how long that took, and what was found; None if it never was."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if enough(found := self.ask()):
                return time.monotonic() - began, found
            time.sleep(2)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What happens, and which finding has to name it: its rule, what it is about, and a word of its cause."""

    name: str
    rule: str
    about: str
    cause: str
    happening: Callable[[Shop], Any]  # a context manager

    def named_by(self, found: list[Found]) -> bool:
        """Whether one of the findings is the right one."""
        return any(
            each["rule"] == self.rule and each["about"] == self.about and self.cause in each["what"] + each["cause"]
            for each in found
        )


def events_are(amiss: Amiss) -> Callable[[Shop], Any]:
    """The events are amiss for a while."""

    @contextmanager
    def happening(shop: Shop) -> Iterator[None]:
        shop.stream.amiss = amiss
        try:
            yield
        finally:
            shop.stream.amiss = Amiss()

    return happening


def the_sink_is(word: str) -> Callable[[Shop], Any]:
    """A file tells the sink what to do."""

    @contextmanager
    def happening(shop: Shop) -> Iterator[None]:
        (shop.folder / word).touch()
        try:
            yield
        finally:
            (shop.folder / word).unlink()

    return happening


@contextmanager
def full(shop: Shop) -> Iterator[None]:
    """Something else takes all the room on the disk of the state: the driver fails until there is room again."""
    ballast = shop.state / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(shop.state).free)
    try:
        yield
    finally:
        ballast.unlink()


INCIDENTS: Final = (
    Incident(
        name="stalled partition", rule="stuck_watermark", about="partition events/events/2", cause="silent",
        happening=events_are(Amiss(stalled=frozenset({2}))),
    ),
    Incident(
        name="flood of old events", rule="stuck_watermark", about="partition events/events/0", cause="flooded with old events",
        happening=events_are(Amiss(old={0: 1.0})),
    ),
    Incident(
        name="late burst", rule="late_rows", about="stage totals", cause="partition events/events/1",
        happening=events_are(Amiss(old={1: 0.3})),
    ),
    Incident(
        name="poison burst", rule="rejected_rows", about="partition events/events/1", cause="cannot be decoded",
        happening=events_are(Amiss(poison={1: 0.3})),
    ),
    Incident(
        name="hot key", rule="hot_key", about="stage totals", cause="The key hot",
        happening=events_are(Amiss(hot=0.6)),
    ),
    Incident(name="slow sink", rule="slow_sink", about="sink shown", cause="to publish a tick", happening=the_sink_is(SLOW)),
    Incident(
        name="key explosion", rule="key_explosion", about="stage totals", cause="has come into the key",
        happening=events_are(Amiss(new_users=0.9)),
    ),
    Incident(
        name="growth without a ttl", rule="growing_state", about="stage ever", cause="no ttl",
        happening=events_are(Amiss(new_devices=0.2)),
    ),
    Incident(name="full disk", rule="full_disk", about="disk of the state", cause="fills the disk", happening=full),
    Incident(name="restart loop", rule="restart_loop", about="flow", cause="the shop is closed", happening=the_sink_is(CLOSED)),
)  # fmt: skip
"""In this order: those that end the driver are told of longest."""


def nothing_wrong(found: list[Found]) -> bool:
    """Whether health finds nothing."""
    return not found


def something_wrong(found: list[Found]) -> bool:
    """Whether health finds anything."""
    return bool(found)


def told(found: list[Found]) -> str:
    """Findings in one line."""
    return "; ".join(f"{each['rule']}: {each['what']}" for each in found)


def silent(shop: Shop, seconds: float, what: str) -> Verdict:
    """Nothing is found for so long."""
    alarm = shop.watch(seconds, something_wrong)
    notes = f"{seconds:.0f} s" if alarm is None else f"after {alarm[0]:.0f} s: {told(alarm[1])}"
    return shown(Verdict(what=what, measured=float(alarm is not None), unit="alarms", at_most=0, notes=notes))


def shown(verdict: Verdict) -> Verdict:
    """Print it as it comes."""
    print(*verdict.cells, sep=" | ", flush=True)
    return verdict


def befallen(shop: Shop, incident: Incident) -> list[Verdict]:
    """Let an incident happen until it is named, and see the flow healthy again."""
    with incident.happening(shop):
        named = shop.watch(2 * WITHIN, incident.named_by)
        last = [] if named is not None else shop.ask()
    others = [] if named is None else [each for each in named[1] if not incident.named_by([each])]
    notes = f"beside it: {told(others)}" if others else "" if named is not None else f"not named: {told(last)}"
    found = shown(
        Verdict(
            what=f"{incident.name} is named", measured=2 * WITHIN if named is None else named[0], unit="s",
            at_most=WITHIN, notes=notes,
        )
    )  # fmt: skip
    mended = shop.watch(HEALTHY_AGAIN, nothing_wrong)
    again = shown(
        Verdict(
            what=f"{incident.name} is over", measured=HEALTHY_AGAIN if mended is None else mended[0], unit="s",
            notes="" if mended is not None else f"still: {told(shop.ask())}",
        )
    )  # fmt: skip
    return [found, again, silent(shop, CALM, f"calm after {incident.name}")]


def play(shop: Shop, minutes: float, incidents: Collection[Incident]) -> list[Verdict]:
    """Ten clean minutes, a pause that is caught up, and the incidents."""
    shop.start()
    deadline = time.monotonic() + STARTING
    while not any((shop.state / "journal").glob("*")):
        if time.monotonic() > deadline:
            raise TimeoutError((shop.folder / "log").read_text()[-2000:])
        time.sleep(0.5)
    found = [silent(shop, 60 * minutes, f"{minutes:g} clean minutes")]
    shop.stop()
    time.sleep(PAUSE)
    shop.start()
    found.append(silent(shop, 2 * PAUSE, "catching up after a minute's pause"))
    for incident in incidents:
        found += befallen(shop, incident)
    return found


@contextmanager
def disk(place: Path) -> Iterator[None]:
    """A disk of its own, in memory, which can be filled."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def main() -> int:
    """Play all of it; 1 if anything was not named in time, or an alarm was false."""
    names = [incident.name for incident in INCIDENTS]
    parser = argparse.ArgumentParser(prog="python -m chaos.incidents", description=__doc__.splitlines()[0])
    parser.add_argument("--clean", type=float, default=10, metavar="MINUTES")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names, help=", ".join(names))
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="strandline-incidents-")))
        servers = stack.enter_context(own_kafka()).address
        create(Cluster(servers), SOURCE, partitions=PARTITIONS)
        (folder / "places.json").write_text(json.dumps({"kafka": servers, "events": SOURCE}), encoding="utf-8")
        stack.enter_context(disk(folder / "state"))
        stream = Stream(servers, SOURCE)
        stack.enter_context(stream.flowing())
        shop = Shop(folder=folder, stream=stream)
        stack.callback(shop.stop)
        verdicts = play(shop, given.clean, [each for each in INCIDENTS if each.name in given.only])
    whole = given.clean >= 10 and given.only == names
    return conclude(
        "incidents",
        "Health, asked every two seconds of a flow that real incidents befall",
        verdicts,
        {},
        quick=not whole,
    )


if __name__ == "__main__":
    sys.exit(main())

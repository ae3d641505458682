"""A process that publishes ticks as a driver does, and is killed or stopped at a moment that is counted.

    python -m chaos.servers.publisher OUTLET FOLDER LAST [MOMENT SIGNAL]

Files in the folder stand for the manifests: each names a tick that is committed, and when that was. At its start the
process publishes the last of them again, and then goes on. A moment is what is just before or just behind a call that
a server hears.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
from redis.connection import AbstractConnection

from chaos.orders import NAMED_ERROR
from chaos.servers.outlets import sink_of
from chaos.servers.ticks import delivery
from strandline.errors import OwnershipError, StrandlineError
from strandline.model.time import Instant
from strandline.sinks.kafka.transactions import Transactions
from strandline.spark import clock

HEARD: Final[dict[str, tuple[tuple[type, str], ...]]] = {
    "kafka": tuple((Transactions, name) for name in ("__init__", "begin", "mark", "send", "commit")),
    "postgres": ((psycopg.Cursor, "execute"), (psycopg.Copy, "write")),
    "postgres upsert": ((psycopg.Cursor, "execute"), (psycopg.Copy, "write")),
    "redis": ((AbstractConnection, "send_packed_command"), (AbstractConnection, "read_response")),
    "http": ((httpx.Client, "send"),),
}
"""The calls that a server hears, by kind of outlet."""
_TICK: Final = "tick-"


def start(outlet: str, folder: Path, last: int, moment: int = 0, by: str = "SIGKILL") -> subprocess.Popen[bytes]:
    """A publisher, from what is committed to the last tick; killed or stopped at a moment if one is named."""
    command = [sys.executable, "-m", "chaos.servers.publisher", outlet, str(folder), str(last), str(moment), by]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def committed(folder: Path) -> tuple[int, Instant] | None:
    """The last tick that is committed, and since when; None before the first."""
    found = max(folder.glob(f"{_TICK}*"), default=None)
    return None if found is None else (int(found.name.removeprefix(_TICK)), Instant(int(found.read_text())))


def _commit(folder: Path, tick: int) -> Instant:
    """As a manifest is: made once, and by one."""
    now = clock.now()
    part = folder / f"part-{os.getpid()}-{tick}"  # of this tick alone: what is linked must not be written again
    part.write_text(str(int(now)), encoding="ascii")
    try:
        os.link(part, folder / f"{_TICK}{tick:06}")
    except FileExistsError:
        raise OwnershipError(f"Tick {tick} is committed by another.", fix="Stop one of the two.") from None
    return now


def publish(outlet: str, folder: Path, last: int) -> None:
    """Publish what is committed once more, and then the following ticks, each committed first."""
    sink, target = sink_of(outlet)
    publisher = sink.prepare(target)
    try:
        head = committed(folder)
        if head is not None:
            publisher.publish(delivery(target, *head))
        for tick in range(1 if head is None else head[0] + 1, last + 1):
            publisher.publish(delivery(target, tick, _commit(folder, tick)))
    finally:
        publisher.close()


def _end_at(moment: int, kind: str, by: signal.Signals) -> None:
    """Let the process get a signal at the n-th moment."""
    moments = itertools.count(1)

    def reached() -> bool:
        return next(moments) == moment

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(this: Any, *given: Any, **named: Any) -> Any:
            if reached():
                os.kill(os.getpid(), by)
            done = call(this, *given, **named)
            if reached():
                if isinstance(this, Transactions):
                    this.producer.flush(10)  # what was given to the client is with the broker
                os.kill(os.getpid(), by)
            return done

        return counted

    for owner, name in HEARD[kind]:
        setattr(owner, name, around(getattr(owner, name)))


def main(outlet: str, folder: str, last: str, moment: str, by: str) -> None:
    """Publish, and say by the exit code how it ended."""
    if int(moment):
        _end_at(int(moment), json.loads(outlet)["kind"], signal.Signals[by])
    try:
        publish(outlet, Path(folder), int(last))
    except StrandlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NAMED_ERROR)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The flow that incidents befall: `python -m chaos.incidents.flow FOLDER`. Two files in its folder make its sink slow, or fail."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import strandline as sl
from chaos.orders import NAMED_ERROR
from strandline.errors import StrandlineError

SCHEMA: Final = "user string, device string, at timestamp"
INTERVAL: Final = "3s"
NAP: Final = 9.0  # seconds that a slow sink takes for a tick
SLOW, CLOSED = "slow", "closed"  # files that tell the sink what to do


def make_flow(folder: Path) -> sl.Flow:
    """Windows by user, which forget; and a count by device, which never does."""
    places = json.loads((folder / "places.json").read_text(encoding="utf-8"))
    flow = sl.Flow("incidents")
    source = sl.Kafka(places["kafka"]).read(places["events"], format="json", schema=SCHEMA)
    events = flow.source("events", source, time="at", watermark=sl.Bounded("5s"))

    def show(frame: Any, tick: Any) -> None:
        if (folder / CLOSED).exists():
            raise OSError("the shop is closed")
        if (folder / SLOW).exists():
            time.sleep(NAP)

    totals = events.key_by("user").window(sl.Tumbling("10s")).aggregate("totals", n=sl.Count())
    totals.sink("shown", sl.ForeachTick(show))
    ever = events.key_by("device").window(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)))
    ever.aggregate("ever", n=sl.Count()).sink(
        "devices", sl.Database(f"sqlite:///{folder}/devices.db").write("devices"), rows="upsert"
    )
    return flow


def main() -> None:
    """Run until SIGTERM, and say by the exit code how it ended."""
    folder = Path(sys.argv[1])
    try:
        run = make_flow(folder).run(state=folder / "state", batch_interval=INTERVAL, wait=False)
        signal.signal(signal.SIGTERM, lambda *_: run.stop())
        run.wait()
    except StrandlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NAMED_ERROR)


if __name__ == "__main__":
    main()

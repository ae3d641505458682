"""A flow from a topic to topics and tables, which drivers run and are killed in: `python -m chaos.servers.flow FOLDER`.

What it leaves does not depend on how its input is cut into ticks: rows that pass through, and windows that are shown once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import strandline as sl
from chaos.orders import NAMED_ERROR
from strandline.errors import StrandlineError

SCHEMA: Final = "key string, n bigint, at timestamp"
BOUND, MINUTE = "10s", "1m"


@dataclass(frozen=True)
class Places:
    """Where the flow reads and writes: the servers, and names on them that nobody else has."""

    kafka: str
    postgres: str
    events: str
    copies: str
    totals: str
    copied: str
    per_minute: str

    @classmethod
    def of(cls, folder: Path) -> Places:
        """Those that stand in a folder."""
        return cls(**json.loads((folder / "places.json").read_text(encoding="utf-8")))

    def write(self, folder: Path) -> None:
        """Put them there."""
        (folder / "places.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def make_flow(places: Places) -> sl.Flow:
    """Every row to a topic and to a table; sums of minutes to both, too."""
    kafka, database = sl.Kafka(places.kafka), sl.Database(places.postgres)
    flow = sl.Flow("between_servers")
    source = kafka.read(places.events, format="json", schema=SCHEMA)
    events = flow.source("events", source, time="at", watermark=sl.Bounded(BOUND))
    rows = events.select("key", "n")
    rows.sink("copies", kafka.write(places.copies, key="key", transaction_timeout="20s"), rows="append")
    rows.sink("copied", database.write(places.copied), rows="append")
    totals = events.key_by("key").window(sl.Tumbling(MINUTE)).aggregate("per_minute", n=sl.Count(), sum=sl.Sum("n"))
    shown = totals.select("key", "window_start", "n", "sum")
    shown.sink(
        "totals", kafka.write(places.totals, transaction_timeout="20s"), rows="upsert", key=["key", "window_start"]
    )
    shown.sink("per_minute", database.write(places.per_minute), rows="upsert", key=["key", "window_start"])
    return flow


def main() -> None:
    """Run until everything is read, and say by the exit code how it ended."""
    folder = Path(sys.argv[1])
    try:
        make_flow(Places.of(folder)).run(
            state=folder / "state", until="caught_up", batch_interval="0s", max_rows_per_tick=40
        )
    except StrandlineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NAMED_ERROR)


if __name__ == "__main__":
    main()

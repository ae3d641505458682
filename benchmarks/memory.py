"""Peak memory of the whole process tree, JVM and Python workers included: ours against Spark's own streaming.

    python -m benchmarks.memory [--quick]

Each runs the same tumbling windows over the same files in a fresh process with Spark's default heap, and is looked at
from outside, five times a second. What counts is the memory that the processes take of the machine: of a page that several
share (forked workers do) each counts its part. The plain sum of resident bytes, in which such a page counts several times,
is told beside it. The peer's least of 2, 4 and 8 shuffle partitions counts.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import native
from benchmarks.engine import ours
from benchmarks.plots import panels
from benchmarks.processes import Watch, watching
from benchmarks.streams import Workload, write_events
from benchmarks.verdicts import Verdict, conclude, place
from strandline.spark.session import session

ROWS_PER_FILE = 250_000


def workload(folder: Path, rows: int) -> Workload:
    files = rows // ROWS_PER_FILE
    write_events(folder / "in", format="parquet", rows=rows, files=files, keys=100_000, hours=files / 32)
    return Workload(
        name="tumbling-parquet", folder=folder / "in", format="parquet", kind="tumbling", size="1 minute", every=None,
        bound="5 seconds", rows=rows, files=files, files_per_tick=1,
    )  # fmt: skip


def run(engine: str, folder: Path, rows: int) -> None:
    """Run one engine in this process: "ours", or the peer with so many shuffle partitions."""
    spark, load, out = session(None, name="memory"), workload(folder, rows), folder / f"out-{engine}"
    if engine == "ours":
        ours(spark, load, out)
    else:
        native.run(spark, load, out, int(engine))
    spark.stop()


def watched(engine: str, folder: Path, rows: int) -> Watch:
    """Run one engine in a process of its own, and watch it."""
    told = ["--engine", engine, "--folder", str(folder), "--rows", str(rows)]
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.memory", *told])
    with watching(child.pid, every=0.2, shared=True) as watch:
        code = child.wait()
    if code:
        raise SystemExit(f"{engine} ended with {code}")
    print(f"{engine}: {watch.peak('pss'):,.0f} MB at most", flush=True)
    return watch


def judged(found: dict[str, Watch]) -> list[Verdict]:
    mine = found["ours"]
    peers = {name: watch for name, watch in found.items() if name != "ours"}
    verdicts = [
        Verdict(
            what=f"{what}: ours against native's", measured=mine.peak(name) / min(p.peak(name) for p in peers.values()),
            at_most=limit,
        )
        for name, what, limit in (("pss", "peak memory", 1.5), ("rss", "sum of resident bytes", None))
    ]  # fmt: skip
    for name, watch in found.items():
        parts = ", ".join(f"{kind} {watch.peak('rss_' + kind):,.0f}" for kind in ("jvm", "driver", "workers"))
        who = name if name == "ours" else f"native, {name} partitions"
        notes = f"resident: {watch.peak('rss'):,.0f}, of it {parts}; {watch.peak('processes'):.0f} processes"
        verdicts.append(Verdict(what=f"peak, {who}", measured=watch.peak("pss"), unit="MB", notes=notes))
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="Measure peak memory.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--rows", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    rows = asked.rows or (750_000 if asked.quick else 8_000_000)
    if asked.engine:
        run(asked.engine, asked.folder, rows)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="strandline-memory-"))
    workload(folder, rows)
    found = {
        engine: watched(engine, folder, rows) for engine in (("ours", "2") if asked.quick else ("ours", "2", "4", "8"))
    }
    shutil.rmtree(folder)
    lines = {
        name: ([s["at"] for s in watch.samples], [s["pss"] for s in watch.samples]) for name, watch in found.items()
    }
    path = place("memory", "png", quick=asked.quick)
    panels(path, "seconds", (), {"memory of the process tree, MB": lines})
    about = f"peak memory of the process tree, tumbling windows over {rows:,} events in parquet"
    return conclude("memory", about, judged(found), {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())

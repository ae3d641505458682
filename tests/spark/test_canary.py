"""A secret that goes through every option is found in no log, plan, journal, file, error or process list."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from tests.guarded import guarded_kafka
from tests.servers import PATIENCE, need_java, own_redis
from tests.sinks.cluster import own_cluster
from tests.sinks.http_calls.paying import Payments, serving
from tests.sources.kafka.broker import Broker
from tests.sources.kafka.registry import serving as registering
from tests.sources.kafka.registry import wire

pytestmark = pytest.mark.slow
SCHEMA = {
    "type": "record", "name": "Event", "fields": [{"name": "k", "type": "string"}, {"name": "n", "type": "int"}],
}  # fmt: skip


class Watch:
    """What stands on the command lines of all processes, looked at again and again."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.ended.set()
        self.thread.join()

    def _work(self) -> None:
        while not self.ended.wait(0.2):
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(each.read_bytes())
                except OSError:  # noqa: PERF203 - it has ended
                    continue


def files_with(needles: list[bytes], folder: Path) -> list[str]:
    found = [each for each in folder.rglob("*") if each.is_file()]
    assert len(found) > 20
    return [str(each) for each in found if any(needle in each.read_bytes() for needle in needles)]


def test_a_secret_that_goes_through_every_option_is_found_nowhere(tmp_path: Path) -> None:
    need_java()
    canary = f"canary-{uuid.uuid4().hex}"
    needles = [canary.encode(), base64.b64encode(f"ann:{canary}".encode())]
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere, out / "events"):
        folder.mkdir(parents=True)
    payments = Payments()
    with (
        guarded_kafka(elsewhere, canary) as kafka,
        own_redis(requirepass=canary) as redis,
        own_cluster(fsync="off") as postgres,
        serving(payments) as pay,
        registering() as registry,
    ):
        rules = postgres.server.folder / "data" / "pg_hba.conf"
        rules.write_text("host all ann 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        postgres.tell(f"CREATE ROLE ann LOGIN SUPERUSER PASSWORD '{canary}'")
        postgres.tell("SELECT pg_reload_conf()")
        registry.login = f"ann:{canary}"
        broker = Broker(kafka.open)
        topic = broker.topic()
        number = registry.add(SCHEMA)
        broker.put(topic, [wire(number, SCHEMA, {"k": k, "n": n}) for n, k in enumerate("abc")] + [b"poison"])
        payments.refused["refused"] = 403
        at = {
            "kafka": kafka.address, "options": kafka.options, "topic": topic, "out": f"{topic}-out", "registry": registry.url,
            "postgres": postgres.url.replace("strandline@", "ann@"), "redis": redis.address, "http": pay,
        }  # fmt: skip
        (elsewhere / "settings.json").write_text(json.dumps(at))
        events = f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir=file://{out}/events pyspark-shell"
        watch = Watch()
        log = out / "log.txt"
        with log.open("wb") as said:
            job = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.canary_job", str(elsewhere / "settings.json"), str(out)],
                env={**os.environ, "CANARY": canary, "WRONG": f"wrong-{canary}", "PYSPARK_SUBMIT_ARGS": events},
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            until = time.monotonic() + 3 * PATIENCE
            while job.poll() is None and time.monotonic() < until:
                time.sleep(0.2)
        watch.close()
        told = log.read_text(errors="replace")
        assert job.returncode == 0, told[-3000:]
        assert postgres.ask("SELECT k, n FROM counted ORDER BY k") == [("a", 1), ("b", 1), ("c", 1)]
        assert len(payments.ledger) == 3
        for name in ("reading", "registry", "writing", "database", "cache", "calls"):
            assert f"refused: {name}:" in told
        assert len(watch.seen) > 5
        assert not [line for line in watch.seen if any(n in line for n in needles) and b"redis-server" not in line]
        assert files_with(needles, out) == []

"""A broker of a test's own, to be killed, paused and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

VARIABLE = "STRANDLINE_TEST_KAFKA_LIB"
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


@dataclass
class OwnBroker:
    folder: Path
    lib: str
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def java(self, *command: str, **more: Any) -> subprocess.Popen[bytes]:
        java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self.lib}/*", *command]
        out = (self.folder / "out").open("ab")
        with out:
            return subprocess.Popen(java, stdout=out, stderr=out, cwd=self.folder, **more)

    def launch(self) -> None:
        """Start it, without waiting for it."""
        self.process = self.java("kafka.Kafka", "server.properties")

    def restart(self) -> None:
        self.launch()
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        for _ in range(60):
            try:
                admin.list_topics(timeout=2)
            except Exception:
                continue
            return
        raise AssertionError((self.folder / "out").read_text()[-2000:])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def own_kafka() -> Iterator[OwnBroker]:
    lib = os.environ.get(VARIABLE)
    if not lib:
        pytest.skip(f"no broker of a test's own: {VARIABLE} does not say where Kafka's jars are")
    folder = Path(tempfile.mkdtemp(prefix="strandline-kafka-"))
    port, controller = _free(), _free()
    (folder / "server.properties").write_text(PROPERTIES.format(port=port, controller=controller, folder=folder))
    made = OwnBroker(folder, lib, port)
    identity = "MkU3OEVBNTcwNTJENDM2Qg"
    done = made.java("kafka.tools.StorageTool", "format", "-t", identity, "-c", "server.properties", "--standalone")
    assert done.wait(120) == 0, (folder / "out").read_text()
    try:
        made.restart()
        yield made
    finally:
        made.resume()
        made.kill()
        shutil.rmtree(folder)


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

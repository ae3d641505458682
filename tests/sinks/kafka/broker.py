"""Brokers for the tests of the Kafka sink: one that is shared, by its address, and one of a test's own that may be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = "STRANDLINE_TEST_KAFKA"
JARS = "STRANDLINE_TEST_KAFKA_JARS"


def address() -> str:
    """Where the shared broker is; the test is skipped where there is none."""
    found = os.environ.get(SERVERS)
    if not found:
        pytest.skip(f"no broker: set {SERVERS}=host:port")
    return found


def new_topic(servers: str, partitions: int = 3, **config: str) -> str:
    """A topic of the test's own."""
    name = f"sink-{uuid.uuid4().hex[:10]}"
    new = NewTopic(name, partitions, 1, config={each.replace("_", "."): value for each, value in config.items()})
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([new])[name].result()
    return name


class Broker:
    """A broker of a test's own, which may be killed and started again with what it has on disk."""

    def __init__(self, folder: Path, jars: str, **settings: str) -> None:
        self.folder, self.jars = folder, jars
        port, control = _free_port(), _free_port()
        self.servers = f"127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None
        said = {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{control}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(folder / "data"), "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2", "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1", "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }  # fmt: skip
        (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in said.items()))
        self._java(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "AAAAAAAAAAAAAAAAAAAAAQ",
            "-c",
            "server.properties",
            "--standalone",
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.folder / "broker.log").open("ab")
        command = [
            "java",
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{self.jars}/*",
            "kafka.Kafka",
            "server.properties",
        ]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + 90
        while True:
            try:
                AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=2)
                return
            except KafkaException:  # noqa: PERF203 - asked again is what it is
                assert self.process.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
                assert time.monotonic() < deadline, "the broker does not answer"

    def kill(self) -> None:
        """As when the machine loses power, but for what the system still writes."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _java(self, *command: str) -> None:
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", f"{self.jars}/*", *command], cwd=self.folder, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def own_broker(folder: Path, **settings: str) -> Iterator[Broker]:
    """A broker that runs, and is killed in the end; the test is skipped where there are no jars of Kafka."""
    jars = os.environ.get(JARS)
    if not jars:
        pytest.skip(f"no broker of its own: set {JARS}=/folder/with/jars")
    broker = Broker(folder, jars, **settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

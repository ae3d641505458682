"""A real broker of Kafka on this machine, for development and tests: one node, on the loopback alone."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline.errors import RunError
from strandline.operations.jars import kafka_jars
from strandline.operations.ports import HOST, answers, free_port, taken
from strandline.operations.processes import LOOK_EVERY, Process, alone
from strandline.spark.java import require_java

# A node that is broker and controller in one; its promises must not be weaker than those of a real cluster's.
PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",  # a name mistyped is an error, and no new topic
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.max.timeout.ms": "900000",
    # Made when they are first used, a folder for each partition: 50 of them, the default, take seconds.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller holds the broker for alive so long, and does not let it in again: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
# The second compiler of Java would take as long as all the rest of the start.
JAVA: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOG: Final = """rootLogger.level=info
rootLogger.appenderRef.file.ref=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName=broker.log
appender.file.filePattern=broker.log.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %m (%c)%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, by its folder: there are its data, its settings and its log. It goes on when this program ends.

    `Broker.start(folder)` starts one, or goes on with one that runs there; `Broker.at(folder)` finds it again. After
    `stop` or `kill`, `restart` starts it on the same data and the same port.
    """

    folder: Path
    port: int

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        port: int | None = None,
        properties: Mapping[str, object] | None = None,
        java: tuple[str, ...] = (),
        owner: int | None = None,
        scratch: Path | None = None,
        within: float = 120.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> Broker:
        """Start a broker and wait until it answers.

        The port, and properties of Kafka's beside ours, are those of its last start if they are not given; the first
        time, and for port 0, a free port. `java` are options of Java. If `owner` (a process) ends, the broker does, and `scratch` goes.
        """
        folder = Path(folder).expanduser().resolve()
        with alone(_made(folder) / "start.lock"):
            last = _remembered(folder)
            ran = Process(folder, "broker").runs
            wanted = port or (last.get("port") if port is None or ran else None) or free_port()
            chosen = last.get("properties", {}) if properties is None else _texts(properties)
            broker = cls(folder, wanted)
            if ran:
                broker._require_same(last, wanted, chosen)
            else:
                broker._launch(chosen, java, owner, scratch, say)
        try:
            broker._wait(within)
        except KeyboardInterrupt:
            if not ran:
                broker.kill()
            raise
        return broker

    @classmethod
    def at(cls, folder: str | Path) -> Broker:
        """The broker of a folder, whether it runs or not."""
        folder = Path(folder).expanduser().resolve()
        port = _remembered(folder).get("port")
        if port is None:
            raise RunError(f"There is no broker in {folder}.", fix="Start one: strandline kafka start.")
        return cls(folder, port)

    @property
    def address(self) -> str:
        """What clients are given as servers."""
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> Process:
        """Its process, which can be asked for its number, paused, resumed and killed."""
        return Process(self.folder, "broker")

    @property
    def runs(self) -> bool:
        """Whether its process lives."""
        return self.process.runs

    @property
    def answers(self) -> bool:
        """Whether it can be used now."""
        return self.runs and answers(self.port)

    @property
    def log(self) -> Path:
        """What it says of itself."""
        return self.folder / "broker.log"

    def stop(self) -> None:
        """End it in good order."""
        self.process.stop(within=60.0)

    def kill(self) -> None:
        """End it as a loss of power to its process would (kill -9)."""
        self.process.kill()

    def pause(self) -> None:
        """Let it stand still: connections stay, and nothing is answered."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()

    def restart(self, *, properties: Mapping[str, object] | None = None, **options: Any) -> Broker:
        """Stop it if it runs, and start it on the same data and port; the options are those of `start`."""
        self.stop()
        return Broker.start(self.folder, port=self.port, properties=properties, **options)

    def _launch(
        self,
        properties: Mapping[str, str],
        java: tuple[str, ...],
        owner: int | None,
        scratch: Path | None,
        say: Callable[[str], None],
    ) -> None:
        if taken(self.port):
            raise RunError(
                f"Another program listens on port {self.port}.",
                fix="Stop it, or name another port; port 0 takes a free one.",
            )
        found, jars = require_java("Kafka"), kafka_jars(say)
        self._write(self.folder / "log4j2.properties", _LOG)
        self._write(self._settings, self._configured(properties, self.folder / "data"))
        self._format(found, jars, properties)
        self.log.unlink(missing_ok=True)
        self._write(self.folder / "broker.json", json.dumps({"port": self.port, "properties": dict(properties)}))
        options = [*JAVA, f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}", *java]
        command = [found, *options, "-cp", f"{jars}/*", "kafka.Kafka", str(self._settings)]
        self.process.start(command, owner=owner, scratch=scratch)

    def _configured(self, properties: Mapping[str, str], data: Path) -> str:
        """The settings. The controller gets a port that is free at this start: nobody but the broker asks it."""
        own = free_port()
        ours = {
            **PROPERTIES,
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{HOST}:{own}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@{HOST}:{own}",
            "log.dirs": str(data),
        }
        return "".join(f"{name}={_escaped(value)}\n" for name, value in {**ours, **properties}.items())

    def _format(self, java: str, jars: Path, properties: Mapping[str, str]) -> None:
        """Make the folder of the data, whole or not at all: one that is half made could not be told from one in use."""
        data, part = self.folder / "data", self.folder / "data.part"
        if data.exists():
            return
        shutil.rmtree(part, ignore_errors=True)
        settings = self.folder / "format.properties"
        self._write(settings, self._configured(properties, part))
        command = [java, *JAVA, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
        answer = subprocess.run(
            [*command, "--cluster-id", _new_id(), "--config", str(settings)],
            cwd=self.folder, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        if answer.returncode:
            raise RunError(
                f"Kafka cannot use {self.folder}: {_reason(answer.stdout + answer.stderr)}",
                fix="Mend the property that it names, or name another folder.",
            )
        settings.unlink()
        part.rename(data)

    def _wait(self, within: float) -> None:
        end = time.monotonic() + within
        while not self.answers:
            if not self.runs:
                told = self.log if self.log.exists() else self.process.out  # where Java itself says what it refuses
                raise RunError(
                    f"The broker ended while it started: {_reason(_text(told))}", fix=f"Its log says more: {told}."
                )
            if time.monotonic() > end:
                raise RunError(
                    f"The broker in {self.folder} does not answer on port {self.port} after {within:g} s.",
                    fix=f"Its log may say why: {self.log}. If it is paused, resume or kill it: pid {self.process.pid}.",
                )
            time.sleep(LOOK_EVERY)

    def _require_same(self, last: Mapping[str, Any], port: int, properties: Mapping[str, str]) -> None:
        other = f"on port {last.get('port')}" if last.get("port") != port else "with other properties"
        if last.get("port") != port or last.get("properties") != properties:
            raise RunError(
                f"A broker runs in {self.folder} already, {other}.",
                fix="Stop it first (strandline kafka stop), or name another folder.",
            )

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    @staticmethod
    def _write(path: Path, text: str) -> None:
        part = path.with_name(f"{path.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def _new_id() -> str:
    """A name for a cluster, as Kafka makes them: none that starts with a dash, which would be read as an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not made.startswith("-"):
            return made


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise RunError(
            f"The folder {folder} cannot hold a broker: {error.strerror}.", fix="Name another folder."
        ) from error


def _remembered(folder: Path) -> dict[str, Any]:
    """What the last start was given: the port, and properties."""
    try:
        found: dict[str, Any] = json.loads((folder / "broker.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _texts(properties: Mapping[str, object]) -> dict[str, str]:
    """Properties as Kafka reads them.

    >>> _texts({"offsets.retention.minutes": 1, "log.cleaner.enable": True})
    {'offsets.retention.minutes': '1', 'log.cleaner.enable': 'true'}
    """
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in properties.items()}


def _escaped(value: str) -> str:
    r"""A value as files of properties have it, which know no letters beyond Latin.

    >>> print(_escaped("/home/zoë/C:\\data"))
    /home/zo\u00eb/C:\\data
    """
    letters = (f"\\u{ord(each):04x}" if ord(each) > 126 else each for each in value.replace("\\", "\\\\"))
    return "".join(letters)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _reason(said: str) -> str:
    r"""The line that says why Java ended: the first that names an exception, or else the first.

    >>> _reason("INFO all is well\njava.lang.Exception: the disk is full\n\tat a.b.C\nINFO shut down")
    'java.lang.Exception: the disk is full'
    """
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Picked up ")]
    telling = [line for line in lines if "Exception: " in line]
    return (telling or lines or ["it said nothing."])[0]

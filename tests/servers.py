"""Real servers for tests: Kafka, PostgreSQL and Redis.

`kafka()`, `postgres()` and `redis()` say where one is that all tests of this run share, in all of its workers; the
fixtures of the same names do too. It is started when it is first asked for, and stopped when the run is over, however
that ends. A test takes names that nobody else has, and leaves the server as it is. `own_kafka()`, `own_postgres()` and
`own_redis()` are a test's own, to be killed, paused and restarted.

STRANDLINE_TEST_KAFKA (host:port), STRANDLINE_TEST_POSTGRES (a url) and STRANDLINE_TEST_REDIS (a url) name servers that
are used instead. Where one cannot be had the test is skipped with the reason; with STRANDLINE_REQUIRE_SERVERS=1, as CI
has it, it fails.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from strandline.errors import RunError
from strandline.operations.broker import Broker
from strandline.operations.jars import kafka_jars
from strandline.operations.ports import HOST, free_port
from strandline.operations.processes import Process, alone, until
from strandline.spark.java import require_java

ROOT: Final = "STRANDLINE_TEST_SERVERS"  # the folder of the servers that this run has started
OWNER: Final = "STRANDLINE_TEST_OWNER"  # the process that ends them
REQUIRED: Final = "STRANDLINE_REQUIRE_SERVERS"
PATIENCE: Final = 120.0  # seconds: machines that run tests are busy


class Unavailable(Exception):
    """Why a server cannot be had."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A PostgreSQL of its own: everybody may connect from this machine, and what is committed is on the disk."""

    folder: Path
    port: int
    settings: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def start(cls, folder: Path, *, owner: int, scratch: Path | None = None, **settings: object) -> Postgres:
        """A new one, which answers; settings are those of postgresql.conf."""
        binaries, user = _postgres_binaries(), _postgres_user()
        folder.mkdir(parents=True)
        if user is not None:
            shutil.chown(folder, user)
        made = subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "strandline", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
            cwd=folder, user=user, extra_groups=None if user is None else [], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        server = cls(folder, free_port(), settings)
        server.restart(owner=owner, scratch=scratch)
        return server

    @property
    def address(self) -> str:
        return f"postgresql://strandline@{HOST}:{self.port}/postgres"

    @property
    def process(self) -> Process:
        """The postmaster. Those it started hold its lock too: it has ended when all of them have."""
        return Process(self.folder, "postgres")

    def restart(self, *, owner: int | None = None, scratch: Path | None = None) -> None:
        """Stop it if it runs, and start it on the same data and port."""
        self.stop()
        # It believes that one which was killed still runs as long as nobody has asked the system how that ended.
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        chosen = {
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_prepared_transactions": 10,
            **self.settings,
        }
        options = [option for name, value in chosen.items() for option in ("-c", f"{name}={value}")]
        command = [str(_postgres_binaries() / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        self.process.start([*command, *options], user=_postgres_user(), owner=owner or os.getpid(), scratch=scratch)
        _wait(self.process, self._ready)

    def stop(self) -> None:
        """In good order, without waiting for connections to be closed."""
        self.process.stop(by=signal.SIGINT)

    def kill(self) -> None:
        """Kill -9 of the postmaster: those it started end by themselves."""
        self.process.kill()

    def pause(self) -> None:
        """Let the whole server stand still, connections that are open included."""
        self.process.pause()
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)
        self.process.resume()

    def _signal_all(self, number: signal.Signals) -> None:
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    def _ready(self) -> bool:
        asked = [str(_postgres_binaries() / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Redis:
    """A Redis of its own, which keeps nothing on the disk if its settings do not say otherwise."""

    folder: Path
    port: int
    settings: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def start(cls, folder: Path, *, owner: int, scratch: Path | None = None, **settings: object) -> Redis:
        """A new one, which answers; settings are those of redis.conf, a tuple for one of several words."""
        _redis_binary()
        server = cls(folder, free_port(), settings)
        server.restart(owner=owner, scratch=scratch)
        return server

    @property
    def address(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def process(self) -> Process:
        return Process(self.folder, "redis")

    def restart(self, *, owner: int | None = None, scratch: Path | None = None) -> None:
        """Stop it if it runs, and start it on the same port, with what it has on the disk."""
        self.stop()
        chosen = {"port": self.port, "bind": HOST, "save": "", "appendonly": "no", "dir": ".", **self.settings}
        words = {name: value if isinstance(value, tuple) else (value,) for name, value in chosen.items()}
        options = [str(each) for name, values in words.items() for each in (f"--{name}", *values)]
        self.process.start([_redis_binary(), *options], owner=owner or os.getpid(), scratch=scratch)
        _wait(self.process, self._ready)

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def _ready(self) -> bool:
        with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        return False


def kafka() -> str:
    """Where the broker of this run is: host:port."""
    return _shared("kafka", _start_kafka)


def postgres() -> str:
    """The url of this run's PostgreSQL."""
    return _shared("postgres", lambda folder, **of: Postgres.start(folder, **of).address)


def redis() -> str:
    """The url of this run's Redis."""
    return _shared("redis", lambda folder, **of: Redis.start(folder, **of).address)


@contextmanager
def own_kafka(properties: Mapping[str, object] | None = None, port: int | None = None) -> Iterator[Broker]:
    """A broker of a test's own, with properties of Kafka's beside ours: `{"offsets.retention.minutes": 1}`."""
    with _scratch() as folder:
        need_kafka()
        broker = Broker.start(
            folder, port=port, properties=properties or {}, owner=os.getpid(), scratch=folder, within=PATIENCE
        )
        try:
            yield broker
        finally:
            broker.kill()


@contextmanager
def own_postgres(**settings: object) -> Iterator[Postgres]:
    """A PostgreSQL of a test's own, with settings of postgresql.conf: `synchronous_commit="off"`."""
    with _scratch() as folder:
        with _or_skip():
            _postgres_binaries()
        server = Postgres.start(folder / "postgres", owner=os.getpid(), scratch=folder, **settings)
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def own_redis(**settings: object) -> Iterator[Redis]:
    """A Redis of a test's own, with settings of redis.conf: `maxmemory="10mb"`."""
    with _scratch() as folder:
        with _or_skip():
            _redis_binary()
        server = Redis.start(folder, owner=os.getpid(), scratch=folder, **settings)
        try:
            yield server
        finally:
            server.kill()


def need_java() -> None:
    """For a test that starts Java itself."""
    with _or_skip():
        _require_java()


def need_kafka() -> None:
    """For a test that starts a broker itself, or takes its jars."""
    with _or_skip():
        _require_kafka()


def promtool() -> str:
    """Where Prometheus' own tester of rules is; it is a program and no server, and is installed with one."""
    with _or_skip():
        found = shutil.which("promtool")
        if found is None:
            raise Unavailable("there is no promtool. Install it: tools/servers, or apt-get install prometheus")
        return found


def begin() -> None:
    """The run begins: its workers know by their environment where its servers would be, and whose they are."""
    os.environ[ROOT] = str(Path(tempfile.gettempdir()) / f"strandline-servers-{uuid.uuid4().hex[:12]}")
    os.environ[OWNER] = str(os.getpid())


def end() -> None:
    """The run is over: its servers end too."""
    folder = Path(os.environ.pop(ROOT))
    for process in (
        Process(folder / "kafka", "broker"),
        *(Process(folder / name, name) for name in ("postgres", "redis")),
    ):
        process.stop(by=signal.SIGINT if process.name == "postgres" else signal.SIGTERM)
    shutil.rmtree(folder, ignore_errors=True)


def _shared(name: str, start: Callable[..., str]) -> str:
    """The address of a server that is started once in a run; what it cannot be had for is found out once too."""
    named = os.environ.get(f"STRANDLINE_TEST_{name.upper()}")
    if named:
        return named
    root, owner = Path(os.environ[ROOT]), int(os.environ[OWNER])
    root.mkdir(exist_ok=True)
    root.chmod(0o755)  # the user who runs PostgreSQL is another one than root
    note = root / f"{name}.json"
    with alone(root / f"{name}.lock"):
        if not note.exists():
            try:
                outcome = {"address": start(root / name, owner=owner, scratch=root)}
            except Unavailable as why:
                outcome = {"why": str(why)}
            note.write_text(json.dumps(outcome), encoding="utf-8")
    told: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    if "why" in told:
        _cannot(told["why"])
    return str(told["address"])


def _start_kafka(folder: Path, *, owner: int, scratch: Path) -> str:
    _require_kafka()
    return Broker.start(folder, owner=owner, scratch=scratch, within=PATIENCE).address


def _require_kafka() -> None:
    _require_java()
    try:
        kafka_jars()
    except RunError as error:
        raise Unavailable(f"there is no broker: {error.what} {error.fix}") from error


def _require_java() -> None:
    try:
        require_java("Kafka")
    except RunError as error:
        raise Unavailable(f"there is no Java: {error.what} {error.fix}") from error


def _postgres_binaries() -> Path:
    told = (
        subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        if shutil.which("pg_config")
        else ""
    )
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in (*([Path(told)] if told else []), *debian, *([Path(on_path).parent] if on_path else [])):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise Unavailable("there is no PostgreSQL (initdb). Install it: tools/servers, or apt-get install postgresql")


def _postgres_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _redis_binary() -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise Unavailable(
            "there is no Redis (redis-server). Install it: tools/servers, or apt-get install redis-server"
        )
    return found


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that users other than root can enter, and that is gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix="strandline-server-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _or_skip() -> Iterator[None]:
    try:
        yield
    except Unavailable as why:
        _cannot(str(why))


def _cannot(why: str) -> None:
    """Skip the test with the reason; where servers are required, that is a failure."""
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(f"{REQUIRED} is set, and {why}", pytrace=False)
    pytest.skip(why)


def _wait(process: Process, ready: Callable[[], bool]) -> None:
    until(lambda: ready() or not process.runs, PATIENCE)
    assert ready(), f"the {process.name} does not answer: {process.out.read_text(encoding='utf-8')[-2000:]}"

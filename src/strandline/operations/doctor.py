"""Look at a machine before a flow is run on it: what is wrong, and how it is mended."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from strandline.errors import StorageError, StrandlineError
from strandline.model.time import Instant
from strandline.operations.packages import needs
from strandline.operations.ports import HOST
from strandline.operations.said import brief, sized
from strandline.spark import clock
from strandline.spark.java import java_version, require_java
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifests
from strandline.store.probe import probe
from strandline.store.storage import storage_at

Verdict = Literal["ok", "warning", "wrong"]

LEAST_PYTHON: Final = (3, 10)
GIGABYTE: Final = 1_000_000_000
WORKERS_NEED: Final = ("strandline", "polars", "pyarrow", "numpy", "sqlglot")
STEPS_BACK: Final = 60_000_000  # microseconds: a clock that is behind the state by more is told of
_CGROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found of one thing; `fix` says how it is mended, if it is not ok."""

    about: str
    verdict: Verdict
    said: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """As plain JSON."""
        return asdict(self)


def examine(state: str | None = None) -> Iterator[Finding]:
    """Everything, one after the other; with `state` also the place where a flow's state is."""
    yield python()
    yield from packages()
    yield java()
    yield workers()
    yield memory(memory_there())
    yield from folders(state)
    yield network()
    yield from spark_settings()
    yield from time(state)
    if state is not None:
        yield kept(state)


def python() -> Finding:
    """Python itself."""
    said = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < LEAST_PYTHON:
        return Finding(about="Python", verdict="wrong", said=said, fix="Install Python 3.10 or newer.")
    return Finding(about="Python", verdict="ok", said=said)


def packages() -> Iterator[Finding]:
    """What each extra needs. Without Spark no flow runs; without the others some sources and sinks do not."""
    extras: dict[str, list[str]] = {}
    there: dict[str, list[str]] = {}
    for need in needs():
        missing, found = extras.setdefault(need.extra, []), there.setdefault(need.extra, [])
        if need.met:
            found.append(f"{need.package} {need.found}")
        else:
            missing.append(f"{need.package}{need.versions} ({need.found or 'not installed'})")
    for extra, missing in extras.items():
        verdict: Verdict = "wrong" if extra == "spark" else "warning"
        fix = (
            f"If you need it: pip install 'strandline[{extra}]'"
            if extra != "spark"
            else "pip install 'strandline[spark]'"
        )
        about = f"packages for {extra}"
        if missing:
            yield Finding(about=about, verdict=verdict, said=f"needs {', '.join(missing)}", fix=fix)
        else:
            yield Finding(about=about, verdict="ok", said=", ".join(there[extra]))


def java() -> Finding:
    """The Java that Spark would be run by."""

    def look() -> str:
        found = require_java()
        return f"{java_version(found)}, {found}"

    return _of("Java", look)


def workers() -> Finding:
    """Whether a process that Spark starts finds what it needs: it is this Python, started anew."""
    told = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(WORKERS_NEED)}"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        why = told.stderr.strip().rpartition("\n")[2] or f"exit code {told.returncode}"
        return Finding(
            about="workers", verdict="wrong", said=f"A new process of {sys.executable} cannot import what it needs: {why}",
            fix="Install Strandline in that Python (pip install strandline), or put its folder on PYTHONPATH.",
        )  # fmt: skip
    other = os.environ.get("PYSPARK_PYTHON")
    if other and shutil.which(other) != shutil.which(sys.executable):
        return Finding(
            about="workers", verdict="warning", said=f"PYSPARK_PYTHON is {other}; this is {sys.executable}.",
            fix="A session that Strandline makes uses this one. For your own: unset PYSPARK_PYTHON, or let both be the same.",
        )  # fmt: skip
    return Finding(about="workers", verdict="ok", said=f"run {sys.executable} too, and find all packages")


def memory_there() -> int:
    """How many bytes of memory this process may have: the machine's, or less, if it is in a container."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        int(text) for file in _CGROUPS if Path(file).exists() and (text := Path(file).read_text().strip()).isdigit()
    ]
    return min([whole, *limits])


def memory(there: int) -> Finding:
    """Whether memory is enough: Java takes one gigabyte, and each of Spark's workers a few hundred megabytes."""
    cores = os.cpu_count() or 1
    said = f"{sized(there)} for {cores} core{'s' if cores > 1 else ''}"
    if there < 1.5 * GIGABYTE:
        return Finding(
            about="memory", verdict="wrong", said=said, fix="Give it two gigabytes or more: Java alone takes one."
        )
    if there < GIGABYTE * (1 + 0.5 * cores):
        return Finding(
            about="memory", verdict="warning", said=said,
            fix=f"{sized(GIGABYTE * (1 + 0.5 * cores))} are more comfortable; or run fewer tasks at a time.",
        )  # fmt: skip
    return Finding(about="memory", verdict="ok", said=said)


def folders(state: str | None) -> Iterator[Finding]:
    """Whether files can be written, and whether there is room for them."""
    yield _of("temporary files", lambda: _written(tempfile.gettempdir()))
    places = {"disk of temporary files": tempfile.gettempdir()}
    if state is not None and isinstance(storage := storage_at(state), LocalStorage):
        places["disk of the state"] = storage.root
    for about, place in places.items():
        yield disk(about, place)


def disk(about: str, place: str) -> Finding:
    """How much room there is where a folder is, or will be."""
    usage = shutil.disk_usage(_nearest(place))
    said = f"{sized(usage.free)} of {sized(usage.total)} free in {place}"
    if usage.free < 0.2 * GIGABYTE:
        return Finding(about=about, verdict="wrong", said=said, fix="Make room, or use another disk (TMPDIR, --state).")
    if usage.free < 2 * GIGABYTE:
        return Finding(
            about=about, verdict="warning", said=said, fix="Make room before it is full: a full disk ends a run."
        )
    return Finding(about=about, verdict="ok", said=said)


def _nearest(place: str) -> Path:
    """The folder itself, or where it would be made."""
    there = Path(place)
    while not there.exists():
        there = there.parent
    return there


def _writable(folder: Path) -> str:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"Nothing can be made in {folder}.", fix="Let this user write there, or name another place.")
    return "it can be made"


def network() -> Finding:
    """Whether Java and Python can talk on this machine: they do so over ports that are free."""
    try:
        with socket.socket() as listening, socket.socket() as asking:
            listening.bind((HOST, 0))
            listening.listen()
            asking.connect(listening.getsockname())
        socket.gethostbyname(socket.gethostname())
    except OSError as error:
        return Finding(
            about="ports", verdict="wrong", said=f"This machine cannot talk to itself: {error}.",
            fix="Let its own name have an address in /etc/hosts, or: export SPARK_LOCAL_IP=127.0.0.1",
        )  # fmt: skip
    return Finding(about="ports", verdict="ok", said="free ones are given, and this machine can reach itself")


def spark_settings() -> Iterator[Finding]:
    """What the environment says to Spark that may surprise."""
    home = os.environ.get("SPARK_HOME")
    if home:
        yield Finding(
            about="SPARK_HOME", verdict="warning", said=f"is {home}: that Spark is started, and not the one of pyspark.",
            fix="unset SPARK_HOME, unless it has the same version.",
        )  # fmt: skip


def time(state: str | None) -> Iterator[Finding]:
    """Whether the clock can be right: it is not behind what the state remembers."""
    now = clock.now()
    if os.environ.get("STRANDLINE_CLOCK"):
        yield Finding(
            about="clock", verdict="warning", said=f"{now.text}, moved by STRANDLINE_CLOCK",
            fix="unset STRANDLINE_CLOCK: it is for tests.",
        )  # fmt: skip
        return
    last = None if state is None else _last_tick(state)
    if last is not None and last > now + STEPS_BACK:
        yield Finding(
            about="clock", verdict="wrong", said=f"{now.text}, {brief(last - now)} before the last tick of the state",
            fix="Set the clock (timedatectl set-ntp true). Until it has caught up, processing time stands still.",
        )  # fmt: skip
    else:
        yield Finding(about="clock", verdict="ok", said=now.text)


def kept(state: str) -> Finding:
    """Whether state can be kept at a place, and which flow's is there."""

    def look() -> str:
        storage = storage_at(state)
        if isinstance(storage, LocalStorage) and not Path(storage.root).exists():
            return f"{storage.url} does not exist yet; {_writable(_nearest(storage.root))}"
        probe(storage)
        head = Manifests(storage).head()
        if head is None:
            return f"{storage.url} can be written; there is no state in it yet"
        return f"tick {head.number} of the flow {head.flow!r} in {storage.url}, which can be written"

    return _of("state", look)


def _last_tick(state: str) -> Instant | None:
    try:
        head = Manifests(storage_at(state)).head()
    except (StrandlineError, OSError):
        return None  # what is wrong with it is said elsewhere
    return None if head is None else head.tick.now


def _written(folder: str) -> str:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
    return f"{folder} can be written"


def _of(about: str, look: Callable[[], Any]) -> Finding:
    """What looking gives; what it raises is wrong."""
    try:
        return Finding(about=about, verdict="ok", said=look())
    except StrandlineError as error:
        return Finding(about=about, verdict="wrong", said=error.what, fix=error.fix)
    except OSError as error:
        return Finding(about=about, verdict="wrong", said=f"{error}.", fix="Mend it, or set TMPDIR to another folder.")

"""Mistakes in files and on the command line, in the state, and on the machine: found before Spark is started."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Final
from unittest import mock

from strandline.store import savepoints
from strandline.store.storage import storage_at
from tests.kept import keep, per_minute
from tests.mistakes.flows import STAGE
from tests.mistakes.mistake import PORT, Mistake

NOBODY: Final = 65_534


@contextmanager
def state(folder: Path) -> Iterator[None]:
    """A state in `state`, with a savepoint `before`."""
    shutil.copytree(_made_once(), folder / "state")
    yield


@cache
def _made_once() -> Path:
    """Made once for all, because it is asked for often."""
    place = Path(tempfile.mkdtemp(prefix="strandline-mistakes-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    savepoints.take(keep(place, per_minute()), "before")
    return place


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    with state(folder):
        (folder / "state/manifests/000000000000.json").write_text("{", encoding="utf-8")
        yield


@contextmanager
def lost(folder: Path) -> Iterator[None]:
    """A file of the state was deleted by hand."""
    with state(folder):
        storage = storage_at(folder / "state")
        storage.delete(storage.names("state/"))
        yield


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """No file may be larger than so much: the quota of this process is used up."""
    with state(folder):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Nobody may write in `state`, and we are nobody in particular."""
    with state(folder):
        for place in (folder, folder / "state", folder / "state/savepoints"):
            place.chmod(0o555)
        closed = {parent: mode for parent in folder.parents if not (mode := parent.stat().st_mode) & 0o001}
        for parent, mode in closed.items():
            parent.chmod(mode | 0o011)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            if root:
                os.seteuid(0)
            for parent, mode in closed.items():
                parent.chmod(mode)
            for place in (folder, folder / "state", folder / "state/savepoints"):
                place.chmod(0o755)


@contextmanager
def taken_port(folder: Path) -> Iterator[None]:
    """Somebody listens on a port, which stands in a file's place of the command."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", PORT))
        other.listen()
        yield


def environment(**values: str) -> Callable[[Path], AbstractContextManager[object]]:
    """An environment of its own; an empty value is none."""

    @contextmanager
    def changed(_: Path) -> Iterator[None]:
        with mock.patch.dict(os.environ, values):
            for name in [name for name, value in values.items() if not value]:
                del os.environ[name]
            yield

    return changed


IN_FILES: Final = (
    Mistake(title="A file that is not there", says="Did you mean 'flow.py'?", command="check flw.py", code=2),
    Mistake(
        title="A file that is no Python", says="is no Python file", command="check flow.yaml", code=2, files={"flow.yaml": "flow: shop"},
    ),
    Mistake(title="A line that is not closed", says="was never closed", code=2, lines='totals = orders.key_by("user"'),
    Mistake(
        title="A package that is not installed", says="No module named 'strandlin'", code=2, files={"flow.py": "import strandlin as sl\n"},
    ),
    Mistake(
        title="A file beside it that cannot be imported", says="prices.py", code=2,
        files={"flow.py": "import prices\n", "prices.py": "VAT = 1 / 0\n"},
    ),
    Mistake(title="A file that fails while it is read", says="ZeroDivisionError", code=2, lines="rate = 1 / 0"),
    Mistake(title="A file that ends the program", says="The file ends the program", code=2, lines="raise SystemExit(0)"),
    Mistake(
        title="A flow that is run while its file is read", says="if __name__ == '__main__'", code=2,
        lines=f'{STAGE}\ntotals.sink("out", sl.Memory())\nflow.run(state="state")',
    ),
    Mistake(title="A file without a flow", says="There is no flow in", code=2, files={"flow.py": "import strandline as sl\n"}),
    Mistake(title="A file with two flows", says="There are 2 flows", code=2, lines='other = sl.Flow("other")'),
    Mistake(title="A flow of another name", says="Did you mean 'shop'?", command="check flow.py:shp", code=2, lines='other = sl.Flow("other")'),
)  # fmt: skip

ON_THE_LINE: Final = (
    Mistake(title="A command that does not exist", says="Did you mean", command="chek flow.py", code=2),
    Mistake(title="An option that does not exist on the line", says="--stat", command="run flow.py --stat state", code=2),
    Mistake(title="A look where no flow was run", says="There is no state", command="status --state state", code=1),
    Mistake(title="An end that does not exist", says="'caught_up'", command="run flow.py --state state --until noon", code=2, lines=STAGE),
    Mistake(title="A batch interval without a unit", says="10s", command="run flow.py --state state --batch-interval 5", code=2, lines=STAGE),
    Mistake(title="No ticks to be kept", says="--retain 1 is too little", command="run flow.py --state state --retain 1", code=2, lines=STAGE),
    Mistake(
        title="A log that cannot be written", says="cannot be written", code=2, lines=STAGE,
        command="run flow.py --state state --spark-log nowhere/spark.log",
    ),
    Mistake(
        title="A flow that is refused, run all the same", says="Did you mean 'user'?", command="run flow.py --state state",
        lines='totals = orders.key_by("usr").window(sl.Tumbling("1m")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(title="A folder that is not empty, to begin a project in", says="is not an empty folder", command="init .", code=2),
    Mistake(title="A project whose name is no name", says="cannot be the name of a flow", command='init "my shop"', code=2),
    Mistake(title="A file of messages that is not there", says="No such file", command="kafka produce orders orders.json --servers localhost:1", code=2),
    Mistake(title="A port that does not exist", says="There is no port 99999", command="kafka start --folder kafka --port 99999", code=2),
    Mistake(
        title="A port that is taken", says="Another program listens", command=f"kafka start --folder kafka --port {PORT}", code=1,
        around=taken_port,
    ),
    Mistake(title="A broker that was not started", says="strandline kafka start", command="kafka tail orders --folder kafka", code=1),
)  # fmt: skip

IN_THE_STATE: Final = (
    Mistake(title="A place where no state can be", says="s3://", command="run flow.py --state ftp://host/state", code=1, lines=STAGE),
    Mistake(
        title="A state where a file is", says="keep the state in a folder", command="run flow.py --state flow.py", code=1, lines=STAGE,
    ),
    Mistake(title="A folder without state", says="There is no state in", command="inspect --state nowhere", code=1),
    Mistake(
        title="A state inside the data", says="where the source 'files' reads", command="run flow.py --state data/state", code=1,
        lines=(
            'files = flow.source("files", sl.Files("data/**").read(format="json", schema="at timestamp"), time="at")\n'
            'files.sink("out", sl.Memory(), rows="append")'
        ),
    ),
    Mistake(title="A stage that the state does not have", says="Did you mean 'stage'?", command="inspect stge --state state", code=1, around=state),
    Mistake(title="A key that the state does not have", says="Did you mean 'user'?", command="inspect stage --state state --key usr=ann", code=1, around=state),
    Mistake(
        title="A moment without a zone", says="zone", command="inspect stage --state state --window 2026-01-01T12:00:00", code=2, around=state,
    ),
    Mistake(
        title="A flow that did not write the state, to look into it", says="rows are then shown as they are kept",
        command="inspect stage flow.py --state state", code=1, around=state,
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m")).aggregate("stage", n=sl.Count())',
    ),
    Mistake(title="A tick that is not kept", says="Tick 7 is not kept", command="savepoint take late --tick 7 --state state", code=1, around=state),
    Mistake(title="A savepoint that is not there", says="Did you mean 'before'?", command="savepoint restore befor --state state", code=1, around=state),
    Mistake(title="A savepoint whose name is none", says="cannot be called", command='savepoint take "before/after" --state state', code=1, around=state),
    Mistake(title="A fork into the state itself", says="There is state in", command="savepoint fork before --state state --into state", code=1, around=state),
    Mistake(title="A state that is damaged", says="damaged", command="inspect --state state", code=1, around=damaged),
    Mistake(title="A state of which a file is lost", says="is not in", command="inspect stage --state state", code=1, around=lost),
    Mistake(title="A disk, or a quota, that is full", says="Make room", command="savepoint take again --state state", code=1, around=full),
    Mistake(title="A folder in which one may not write", says="Let this user write there", command="savepoint take again --state state", code=1, around=forbidden),
    Mistake(
        title="A machine without Java", says="apt-get install", command="run flow.py --state state", code=1, lines=STAGE,
        fresh=True, around=environment(JAVA_HOME="", PATH="/nowhere"),
    ),
    Mistake(
        title="A JAVA_HOME that is none", says="there is no bin/java", command="run flow.py --state state", code=1, lines=STAGE,
        fresh=True, around=environment(JAVA_HOME="/opt/java-that-was-removed"),
    ),
)  # fmt: skip

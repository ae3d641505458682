"""Clients of servers are optional: they are asked for when a flow starts, and not before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.errors import RunError
from strandline.sinks.contract import Sink
from strandline.sinks.delta.description import DeltaSink
from strandline.sinks.http.description import HttpSink
from strandline.sinks.redis.description import RedisSink
from tests.sinks.delivering import CHANGES

SINKS: dict[str, tuple[str, Callable[[Path], Sink]]] = {
    "redis": ("redis", lambda folder: RedisSink("redis://host", "x:")),
    "http": ("httpx", lambda folder: HttpSink("http://host/")),
    "delta": ("deltalake", DeltaSink),
}


@pytest.mark.parametrize("extra", SINKS)
def test_a_client_that_is_not_installed_is_said_with_its_extra(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, made = SINKS[extra]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RunError, match="is not installed") as refused:
        made(tmp_path).prepare(CHANGES)
    assert f"pip install 'strandline[{extra}]'" in refused.value.fix


def test_describing_a_sink_imports_no_client() -> None:
    modules = "strandline.sinks.redis, strandline.sinks.http.description, strandline.sinks.delta"
    question = f"import sys, {modules}; print({{'redis', 'httpx', 'deltalake'}} & sys.modules.keys())"
    source = str(Path(__file__).parents[2] / "src")
    answer = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert answer.stdout.strip() == "set()"

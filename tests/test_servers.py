"""The servers that tests get: real, one for a run whatever its workers, gone with it, and never missing in silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from redis import Redis
from redis import exceptions as redis_errors

from strandline.operations.processes import until
from tests.servers import own_postgres, own_redis

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
ASKS = """
import os, pathlib
def test_{name}({server}):
    pathlib.Path("{name}").write_text({server} + " " + os.environ["PYTEST_XDIST_WORKER"])
"""
WAITS = """
import os, pathlib, time
def test_waits(redis):
    pathlib.Path("told").write_text(os.environ["STRANDLINE_TEST_SERVERS"] + " " + redis)
    time.sleep(1000)
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A run of its own, of the tests in a folder, with the servers that these tests get."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STRANDLINE_", "PYTEST_"))}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-rs", *arguments],
        cwd=folder, env={**kept, "PYTHONPATH": paths, **environment}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def answers(url: str) -> bool:
    try:
        with Redis.from_url(url) as client:
            return bool(client.ping())
    except redis_errors.ConnectionError:
        return False


def test_all_workers_of_a_run_get_the_same_server_and_it_ends_with_the_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text(ASKS.format(name=name, server="redis"), encoding="utf-8")
    done = run(tmp_path, "-n", "2", "--dist", "loadfile")
    told, _ = done.communicate()
    assert done.returncode == 0, told
    (first, one), (second, two) = ((tmp_path / name).read_text(encoding="utf-8").split() for name in ("one", "two"))
    assert first == second
    assert {one, two} == {"gw0", "gw1"}
    assert not answers(first)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_run_that_is_killed_leaves_no_server_and_no_folder(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS, encoding="utf-8")
    waits, told = run(tmp_path, *workers), tmp_path / "told"
    try:
        assert until(lambda: told.exists() and len(told.read_text(encoding="utf-8").split()) == 2, 60.0)
        folder, url = told.read_text(encoding="utf-8").split()
        assert answers(url)
    finally:
        waits.send_signal(signal.SIGKILL)
        waits.communicate()
    assert until(lambda: not answers(url) and not Path(folder).exists(), 20.0)


def test_a_server_that_cannot_be_had_is_skipped_with_the_reason_or_fails(tmp_path: Path) -> None:
    (tmp_path / "test_asks.py").write_text(ASKS.format(name="asks", server="redis"), encoding="utf-8")
    for required, said in (("", "SKIPPED"), ("1", "STRANDLINE_REQUIRE_SERVERS is set, and ")):
        done = run(tmp_path, PATH=str(tmp_path), STRANDLINE_REQUIRE_SERVERS=required)
        told, _ = done.communicate()
        assert done.returncode == bool(required), told
        assert said in told
        assert "there is no Redis (redis-server). Install it: tools/servers" in told


def test_a_server_that_is_named_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_asks.py").write_text(ASKS.format(name="asks", server="kafka"), encoding="utf-8")
    done = run(tmp_path, PYTEST_XDIST_WORKER="none", STRANDLINE_TEST_KAFKA="elsewhere:9092")
    told, _ = done.communicate()
    assert done.returncode == 0, told
    assert (tmp_path / "asks").read_text(encoding="utf-8") == "elsewhere:9092 none"


def test_postgres_keeps_what_was_committed_when_it_is_killed() -> None:
    with own_postgres(synchronous_commit="on") as server:
        with psycopg.connect(server.address) as connection:
            connection.execute("CREATE TABLE kept (n int)")
            connection.execute("INSERT INTO kept VALUES (1)")
        with psycopg.connect(server.address, autocommit=True) as held:
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                held.execute("SELECT 1")
        server.restart()
        with psycopg.connect(server.address) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
            assert connection.execute("SHOW fsync").fetchall() == [("on",)]


def test_postgres_and_its_open_connections_stand_still_while_it_is_paused() -> None:
    with own_postgres() as server, psycopg.connect(server.address, autocommit=True) as connection:
        server.pause()
        connection.pgconn.send_query(b"SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(server.address, connect_timeout=2)
        connection.pgconn.consume_input()
        assert connection.pgconn.is_busy()
        server.resume()
        answer = connection.pgconn.get_result()
        assert answer is not None
        assert answer.get_value(0, 0) == b"1"
        assert connection.pgconn.get_result() is None


def test_redis_forgets_when_it_is_restarted() -> None:
    with own_redis() as server, Redis.from_url(server.address) as client:
        client.set("a", 1)
        server.restart()
        assert client.get("a") is None


@pytest.mark.parametrize("server", ["postgres", "redis"])
def test_the_fixtures_give_servers_that_answer(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    if server == "redis":
        assert answers(url)
    else:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]

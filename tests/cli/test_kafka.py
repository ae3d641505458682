"""`strandline kafka`, as a user types it, with a real broker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.clients.kafka import Cluster
from strandline.operations.broker import Broker
from strandline.operations.ports import free_port
from strandline.operations.processes import until
from strandline.operations.topics import create
from tests.commands import blocks
from tests.servers import need_kafka

pytestmark = pytest.mark.slow
ORDERS = [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}, {"user": None, "n": 3}, {"user": "ann", "n": 4}]


def started(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "strandline", "kafka", *map(str, arguments)],
        env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def typed(*arguments: object, code: int = 0, given: str = "", **environment: str) -> str:
    """What a command said: what it printed, or its error, which has a fix and no stack trace."""
    command = started(*arguments, **environment)
    out, err = command.communicate(given)
    assert command.returncode == code, out + err
    assert "Traceback" not in err
    if code and not out:
        assert err.startswith("error: ")
        assert "  fix: " in err
    return err if code and not out else out


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a broker may be started; it is gone in the end."""
    need_kafka()
    yield tmp_path
    if (tmp_path / "broker.json").exists():
        Broker.at(tmp_path).kill()


@pytest.fixture
def topic(kafka: str) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create(Cluster(kafka), name, partitions=3)
    return name


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.json"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in ORDERS), encoding="utf-8")
    return path


def read(kafka: str, topic: str, *options: object) -> list[list[str]]:
    said = typed("tail", topic, "--servers", kafka, *options)
    return sorted(line.split("\t") for line in said.splitlines())


def test_a_broker_is_started_used_and_stopped_and_keeps_its_data(folder: Path, orders: Path) -> None:
    port, here = free_port(), ("--folder", folder)
    assert typed("status", *here, code=1) == f"No broker runs in {folder}.\n"
    said = typed("start", *here, "--port", port)
    assert f"Kafka 4.1.0 answers at 127.0.0.1:{port}\n" in said
    assert f"strandline kafka stop --folder {folder}\n" in said
    assert f"runs already at 127.0.0.1:{port}\n" in typed("start", *here)
    assert f"answers at 127.0.0.1:{port}: process {Broker.at(folder).process.pid}" in typed("status", *here)
    assert typed("topics", *here).startswith("There are no topics.")
    assert typed("topics", "--create", "orders", *here) == "The topic 'orders' is made, with 1 partition.\n"
    assert typed("produce", "orders", orders, *here).startswith("4 messages to 'orders' in ")
    assert typed("stop", *here).startswith(f"The broker at 127.0.0.1:{port} is stopped")
    assert typed("stop", *here) == f"No broker runs in {folder}.\n"
    assert "No broker runs in" in typed("tail", "orders", *here, code=1)
    assert f"answers at 127.0.0.1:{port}\n" in typed("start", *here)  # where it was
    assert [line.split()[:3] for line in typed("topics", *here).splitlines()][1:] == [["orders", "1", "4"]]
    assert json.loads(typed("topics", "--json", *here)) == [{"topic": "orders", "partitions": 1, "messages": 4}]
    assert len(typed("tail", "orders", "--until-end", *here).splitlines()) == 4


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_broker_in_the_foreground_ends_with_its_command(folder: Path, end: signal.Signals) -> None:
    command = started("start", "--folder", folder, "--port", 0, "--foreground")
    assert command.stdout is not None
    assert "answers at" in command.stdout.readline()
    broker = Broker.at(folder)
    while "to stop it: Ctrl-C" not in command.stdout.readline():
        pass
    command.send_signal(end)
    _, said = command.communicate(timeout=90)
    assert (command.returncode, said) == ((0, "Stopping the broker.\n") if end == signal.SIGINT else (-end, ""))
    assert broker.process.ended(within=15.0)


def test_the_default_folder_is_in_the_users_state(tmp_path: Path) -> None:
    place = tmp_path / "strandline" / "kafka"
    assert typed("status", code=1, XDG_STATE_HOME=str(tmp_path)) == f"No broker runs in {place}.\n"
    assert typed("stop", XDG_STATE_HOME=str(tmp_path)) == f"No broker runs in {place}.\n"


def test_a_broker_that_is_paused_is_told(folder: Path) -> None:
    typed("start", "--folder", folder, "--port", 0)
    Broker.at(folder).pause()
    assert "runs, and does not answer, at" in typed("status", "--folder", folder, code=1)
    typed("stop", "--folder", folder)
    assert not Broker.at(folder).runs


def test_what_hinders_a_start_is_said(tmp_path: Path, kafka: str) -> None:
    port = kafka.rpartition(":")[2]
    assert f"Another program listens on port {port}" in typed("start", "--folder", tmp_path, "--port", port, code=1)
    assert "There is no port 70000" in typed("start", "--folder", tmp_path, "--port", 70_000, code=2)
    said = typed("start", "--folder", tmp_path, "--port", 0, code=1, JAVA_HOME="/nowhere")
    assert "Kafka needs Java 17 or newer, and JAVA_HOME is /nowhere, where there is no bin/java" in " ".join(
        said.split()
    )


def test_messages_are_sent_with_their_keys_and_read_where_they_are(kafka: str, topic: str, orders: Path) -> None:
    typed("produce", topic, orders, "--key", "user", "--servers", kafka)
    lines = read(kafka, topic, "--until-end")
    assert sorted((key, json.loads(value)["n"]) for _, _, key, value in lines) == [
        ("(null)", 3), ("ann", 1), ("ann", 4), ("bob", 2),
    ]  # fmt: skip
    assert len({partition for partition, _, key, _ in lines if key == "ann"}) == 1
    assert [line.rstrip("\n") for line in orders.read_text(encoding="utf-8").splitlines()] == [
        value for _, value in sorted((json.loads(each[3])["n"], each[3]) for each in lines)
    ]


def test_a_topic_is_followed_until_enough_have_come(kafka: str, topic: str, orders: Path) -> None:
    typed("produce", topic, orders, "--servers", kafka)
    following = started("tail", topic, "--count", 6, "--servers", kafka)
    assert following.stdout is not None
    first = [following.stdout.readline() for _ in range(4)]  # all that is there; and now it waits
    assert all(first)
    assert following.poll() is None
    typed("produce", topic, "-", "--servers", kafka, given='{"n": 5}\n\n{"n": 6}\n{"n": 7}\n')
    rest, err = following.communicate(timeout=60)
    assert (len(rest.splitlines()), following.returncode, err) == (2, 0, "")


def test_from_the_end_only_what_comes_is_read(kafka: str, topic: str, orders: Path) -> None:
    typed("produce", topic, orders, "--servers", kafka)
    assert read(kafka, topic, "--from", "latest", "--until-end") == []


@pytest.mark.parametrize("end", ["interrupted", "pipe closed"])
def test_following_ends_in_silence(kafka: str, topic: str, orders: Path, end: str) -> None:
    typed("produce", topic, orders, "--servers", kafka)
    following = started("tail", topic, "--servers", kafka)
    assert following.stdout is not None
    assert following.stdout.readline()
    if end == "interrupted":
        following.send_signal(signal.SIGINT)
    else:
        following.stdout.close()
        typed("produce", topic, orders, "--servers", kafka)
    assert following.wait(timeout=60) == 0
    assert following.stderr is not None
    assert following.stderr.read() == ""
    for each in (following.stdout, following.stdin, following.stderr):
        assert each is not None
        each.close()


def test_messages_can_be_sent_at_a_rate(kafka: str, topic: str, orders: Path) -> None:
    said = typed("produce", topic, orders, "--rate", 2, "--servers", kafka)
    assert (
        float(said.split(" in ")[1].split()[0]) >= 1.5
    )  # the fourth message comes a second and a half after the first


def test_one_that_is_interrupted_says_how_many_were_sent(kafka: str, topic: str, tmp_path: Path) -> None:
    many = tmp_path / "many.json"
    many.write_text("1\n" * 10_000, encoding="utf-8")
    sending = started("produce", topic, many, "--rate", 20, "--servers", kafka)
    seen = started("tail", topic, "--count", 1, "--servers", kafka)
    assert seen.wait(timeout=60) == 0
    seen.communicate()
    sending.send_signal(signal.SIGINT)
    _, said = sending.communicate(timeout=60)
    assert "It was interrupted. Sent before: " in said, said
    sent = int(said.partition("It was interrupted. Sent before: ")[2].split(".")[0].replace(",", ""))
    assert sent == len(read(kafka, topic, "--until-end"))
    assert 0 < sent < 10_000


def test_a_bad_line_is_said_with_its_number_unless_lines_are_sent_raw(kafka: str, topic: str) -> None:
    bad = '{"n": 1}\n{"n": \n'
    said = typed("produce", topic, "-", "--servers", kafka, given=bad, code=1)
    assert "Line 2 is no JSON" in said
    assert "Sent before: 1." in said
    assert "Line 1 has no field 'user'" in typed(
        "produce", topic, "-", "--key", "user", "--servers", kafka, given=bad, code=1
    )
    assert typed("produce", topic, "-", "--raw", "--servers", kafka, given=bad).startswith("2 messages")
    assert len(read(kafka, topic, "--until-end")) == 3


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("produce", "ordrs", "none.json"), 2, "none.json cannot be read: No such file or directory."),
        (("produce", "ordrs", "-", "--rate", "0"), 2, "at a rate of 0"),
        (("produce", "ordrs", "-", "--raw", "--key", "a"), 2, "Lines that are sent raw have no fields"),
        (("produce", "no-such-topic", "-"), 1, "--create no-such-topic"),
        (("tail", "no-such-topic"), 1, "There is no topic 'no-such-topic'"),
        (("topics", "--delete", "no-such-topic"), 1, "There is no topic 'no-such-topic'"),
        (("topics", "--create", "two words"), 1, "Topic name is invalid"),
    ],
)
def test_what_is_wrong_is_said(kafka: str, command: tuple[str, ...], code: int, said: str) -> None:
    assert said in typed(*command, "--servers", kafka, code=code)


def test_a_broker_that_is_not_there_is_said_with_what_to_do() -> None:
    said = typed("topics", "--servers", "127.0.0.1:1", code=1)
    assert "No broker answers at 127.0.0.1:1" in said
    assert "strandline kafka start" in said


def test_without_the_client_it_is_said_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "confluent_kafka.py").write_text("raise ImportError('not there')\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = typed("topics", "--servers", "127.0.0.1:1", code=1, PYTHONPATH=path)
    assert "pip install 'strandline[kafka]'" in said


def test_following_goes_on_when_the_broker_comes_back(folder: Path) -> None:
    broker = Broker.start(folder, owner=os.getpid())
    create(Cluster(broker.address), "orders")
    following = started("tail", "orders", "--count", 2, "--servers", broker.address)
    typed("produce", "orders", "-", "--folder", folder, given="1\n")
    assert following.stdout is not None
    assert following.stdout.readline() == "0\t0\t(null)\t1\n"
    broker.kill()
    broker.restart(owner=os.getpid())
    typed("produce", "orders", "-", "--folder", folder, given="2\n")
    rest, warned = following.communicate(timeout=120)
    assert rest == "0\t1\t(null)\t2\n"
    assert f"No broker answers at {broker.address} just now; trying again." in warned
    assert until(lambda: following.poll() == 0, 1.0)


def test_the_commands_that_the_documents_show_say_what_they_show(tmp_path: Path) -> None:
    need_kafka()
    text = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
    (block,) = (each for each in blocks(text) if each.language == "console")
    (tmp_path / "strandline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m strandline "$@"\n', encoding="utf-8")
    (tmp_path / "strandline").chmod(0o755)
    state = tmp_path / "strandline-state"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_STATE_HOME": str(state)}
    try:
        for each in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, shown = each.partition("\n")
            command = command.replace("kafka start", "kafka start --port 0")  # the port shown may be taken here
            said = subprocess.run(
                ["sh", "-c", command], cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert said.stderr == ""
            assert same_everywhere(said.stdout) == same_everywhere(shown)
    finally:
        if (state / "strandline" / "kafka" / "broker.json").exists():
            Broker.at(state / "strandline" / "kafka").kill()


def same_everywhere(text: str) -> str:
    """Without what differs from machine to machine: the port, the process, the time, the user's folder."""
    for pattern, word in (
        (r"127\.0\.0\.1:\d+", "ADDRESS"), (r"process:? +\d+", "PROCESS"), (r"\d+\.\d s", "TIME"), (r"/\S*/strandline/kafka", "FOLDER"),
    ):  # fmt: skip
        text = re.sub(pattern, word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())

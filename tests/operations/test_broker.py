"""A real broker: it answers, keeps what it was given through stops and kills, and says why it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from strandline.clients.kafka import Cluster
from strandline.errors import RunError
from strandline.operations.broker import Broker
from strandline.operations.ports import answers, free_port, taken
from strandline.operations.produce import produce
from strandline.operations.tail import tail
from strandline.operations.topics import create, delete, names, topics
from tests.servers import need_kafka, own_kafka

pytestmark = pytest.mark.slow
START = (
    "import sys, time; from strandline.operations.broker import Broker\n"
    "print(Broker.start(sys.argv[1], owner=eval(sys.argv[2])).process.pid, flush=True); time.sleep(float(sys.argv[3]))"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with own_kafka({"offsets.retention.minutes": 1}) as made:
        yield made


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster(broker.address)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    create(cluster, name, partitions=2)
    return name


def values(cluster: Cluster, topic: str, *, committed: bool = True) -> list[bytes | None]:
    return sorted(each.value for each in tail(cluster, topic, until_end=True, committed=committed) if each.value)


def setting(broker: Broker, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    (asked,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    found: str | None = asked.result(timeout=30)[name].value
    return found


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_it_was_given_is_there_after_it_has_ended_and_started_again(
    broker: Broker, cluster: Cluster, topic: str, end: str
) -> None:
    assert produce(cluster, topic, [b'{"n": %d}' % n for n in range(100)], key="n") == 100
    before = values(cluster, topic)
    getattr(broker, end)()
    assert not broker.runs
    assert not broker.answers
    again = broker.restart(owner=os.getpid())
    assert (again, again.answers) == (broker, True)
    assert values(cluster, topic) == before
    assert len(before) == 100
    assert produce(cluster, topic, [b'{"n": 100}']) == 1


def test_properties_reach_it_and_stay_until_others_are_given(broker: Broker) -> None:
    assert setting(broker, "offsets.retention.minutes") == "1"
    assert setting(broker, "auto.create.topics.enable") == "false"
    broker.restart(owner=os.getpid())
    assert setting(broker, "offsets.retention.minutes") == "1"
    broker.restart(properties={"offsets.retention.minutes": 7}, owner=os.getpid())
    assert setting(broker, "offsets.retention.minutes") == "7"


def test_one_that_is_paused_runs_and_does_not_answer(broker: Broker) -> None:
    broker.pause()
    try:
        assert broker.runs
        assert not broker.answers
    finally:
        broker.resume()
    assert answers(broker.port, within=30.0)


def test_to_start_one_that_runs_changes_nothing(broker: Broker) -> None:
    pid = broker.process.pid
    assert Broker.start(broker.folder) == Broker.start(broker.folder, port=0) == Broker.at(broker.folder) == broker
    assert broker.process.pid == pid
    with pytest.raises(RunError, match=rf"runs in .* already, on port {broker.port}"):
        Broker.start(broker.folder, port=free_port())
    with pytest.raises(RunError, match=r"runs in .* already, with other properties"):
        Broker.start(broker.folder, properties={"log.retention.hours": 1})


def test_it_listens_on_the_loopback_alone(broker: Broker) -> None:
    settings = (broker.folder / "server.properties").read_text(encoding="utf-8")
    (listeners,) = (line for line in settings.splitlines() if line.startswith("listeners="))
    assert listeners.count("://127.0.0.1:") == listeners.count("://") == 2


def test_a_port_on_which_another_program_listens_is_refused(tmp_path: Path) -> None:
    need_kafka()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert taken(port)
        with pytest.raises(RunError, match=f"Another program listens on port {port}"):
            Broker.start(tmp_path, port=port)
    assert not taken(port)
    assert not Broker(tmp_path, port).runs


def test_a_property_that_kafka_refuses_is_said_with_its_reason(tmp_path: Path) -> None:
    need_kafka()
    with pytest.raises(RunError, match=r"log\.retention\.hours"):
        Broker.start(tmp_path, properties={"log.retention.hours": "soon"})
    assert not (tmp_path / "data").exists()


def test_one_that_ends_while_it_starts_is_told_with_the_reason(tmp_path: Path) -> None:
    need_kafka()
    with pytest.raises(RunError, match=r"The broker ended while it started: .*NoSuchOption"):
        Broker.start(tmp_path, java=("-XX:NoSuchOption=1",))
    identity = tmp_path / "data" / "meta.properties"
    identity.write_text(identity.read_text(encoding="utf-8").replace("node.id=1", "node.id=2"), encoding="utf-8")
    with pytest.raises(RunError, match=r"The broker ended while it started: .*[Nn]ode.?[Ii]d.* 2") as caught:
        Broker.start(tmp_path)
    assert "broker.log" in caught.value.fix


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="cannot hold a broker: Permission denied"):
        Broker.start(tmp_path / "kafka")


def test_a_file_in_place_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("no folder", encoding="utf-8")
    with pytest.raises(RunError, match="cannot hold a broker: File exists"):
        Broker.start(tmp_path / "kafka")


def test_a_folder_without_a_broker_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="There is no broker in") as caught:
        Broker.at(tmp_path)
    assert "strandline kafka start" in caught.value.fix


def test_two_starts_at_once_make_one_broker_and_it_ends_with_its_owner(tmp_path: Path) -> None:
    need_kafka()
    (tmp_path / "data.part").mkdir()  # of one that was killed while it made its folder
    command = [sys.executable, "-c", START, str(tmp_path), "__import__('os').getppid()", "0"]
    parent = subprocess.Popen(
        ["sh", "-c", '"$@" & "$@" & wait; exec sleep 1000', "sh", *command], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    told = [parent.stdout.readline() for _ in range(2)]
    assert told[0] == told[1] == f"{Broker.at(tmp_path).process.pid}\n"
    assert Broker.at(tmp_path).answers  # those who started it have ended
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert Broker.at(tmp_path).process.ended(within=15.0)


def test_one_that_is_killed_while_it_waits_leaves_a_broker_that_the_next_start_finds(tmp_path: Path) -> None:
    need_kafka()
    tmp_path = tmp_path / "Zoë's broker \\ 100% 日本"
    starting = subprocess.Popen([sys.executable, "-c", START, str(tmp_path), str(os.getpid()), "0"])
    while not (tmp_path / "broker.json").exists() or not Broker.at(tmp_path).runs:
        assert starting.poll() is None
        time.sleep(0.01)
    starting.kill()
    starting.wait()
    broker = Broker.start(tmp_path)
    assert broker.answers
    assert (tmp_path / "broker.log").exists()
    broker.kill()


def test_topics_are_made_listed_and_deleted(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b'{"n": 1}', b"", b'{"n": 2}'])
    assert next((each.partitions, each.messages) for each in topics(cluster) if each.name == topic) == (2, 2)
    with pytest.raises(RunError, match="already"):
        create(cluster, topic)
    delete(cluster, topic)
    assert topic not in names(cluster)
    with pytest.raises(RunError, match=f"There is no topic '{topic}'"):
        delete(cluster, topic)
    with pytest.raises(RunError, match="cannot be made: Topic name is invalid"):
        create(cluster, "two words")


def test_only_what_was_committed_is_read_unless_all_is_wanted(broker: Broker, cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for value, done in ((b"kept", producer.commit_transaction), (b"gone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        done(30)
    assert values(cluster, topic) == [b"kept"]
    assert values(cluster, topic, committed=False) == [b"gone", b"kept"]


def test_a_message_that_is_refused_is_told_with_how_many_were_sent(cluster: Cluster, topic: str) -> None:
    with pytest.raises(RunError, match=r"did not reach .*too large\. Sent before: 1\."):
        produce(cluster, topic, [b"1", b"2" * 2_000_000, b"3"], raw=True)
    assert values(cluster, topic) == [b"1"]


def test_a_topic_that_is_deleted_is_followed_no_further(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b"1"])
    messages = tail(cluster, topic)
    assert next(messages).value == b"1"
    delete(cluster, topic)
    with pytest.raises(RunError, match=f"The topic '{topic}' (was deleted|can be read no further)"):
        next(messages)


def test_a_broker_that_does_not_answer_is_told_with_what_to_do() -> None:
    with pytest.raises(RunError, match=r"No broker answers at 127\.0\.0\.1:1") as caught:
        names(Cluster("127.0.0.1:1"))
    assert "strandline kafka start" in caught.value.fix

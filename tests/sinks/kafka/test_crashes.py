"""Whatever is killed or stopped, a reader beside it sees every row once, in order, and none that is gone later."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Sequence

import pytest

from strandline.errors import OwnershipError
from tests.servers import kafka
from tests.sinks.delivering import TARGET
from tests.sinks.kafka.broker import new_topic
from tests.sinks.kafka.dying import KEYS, POINTS, ROWS, child, publish, sink, tick
from tests.sinks.kafka.reader import Seen, read, reading

TICKS = 4
pytestmark = pytest.mark.slow


def judge(seen: Sequence[Seen], final: Sequence[Seen], ticks: int = TICKS) -> None:
    """What a reader saw meanwhile is what is there in the end: every id once, in order for each key."""
    assert sorted(seen, key=lambda each: each[:2]) == sorted(final, key=lambda each: each[:2])
    by_key = defaultdict(list)
    for _, _, key, value in final:
        by_key[key].append(json.loads(value or b"null")["n"])
    expected = range(ROWS, (ticks + 1) * ROWS)
    assert by_key == {
        f"k{number}".encode(): [each for each in expected if each % KEYS == number] for number in range(KEYS)
    }


def settled(servers: str, topic: str, seen: list[Seen], ticks: int = TICKS) -> None:
    final = read(servers, topic, at_least=ticks * ROWS)
    deadline = time.monotonic() + 20
    while len(seen) < len(final) and time.monotonic() < deadline:
        time.sleep(0.01)
    judge(seen, final, ticks)


@pytest.mark.parametrize("chunk", [5, 6, 7])  # the three transactions of tick 2, behind that of the start
@pytest.mark.parametrize("point", POINTS)
def test_a_publisher_that_is_killed_at_any_point_is_gone_on_from(point: str, chunk: int) -> None:
    servers = kafka()
    topic = new_topic(servers)
    with reading(servers, topic) as seen:
        dead = child(servers, topic, point, chunk, TICKS, "kill")
        dead.communicate(timeout=60)
        assert dead.returncode == -signal.SIGKILL
        second = sink(servers, topic).prepare(TARGET)
        known = second.marker
        assert known is not None
        assert known.tick == (2 if (point, chunk) == ("committed", 7) else 1)
        # The last tick that it shows is published again, as at a start.
        assert second.publish(tick(known.tick)).skipped
        publish(second, known.tick + 1, TICKS)
        second.close()
        settled(servers, topic, seen)


@pytest.mark.parametrize(("point", "pause"), [("sending", 0), ("sent", 0), ("committed", 0), ("sending", 22)])
def test_a_zombie_that_wakes_up_behind_its_replacement_publishes_nothing(point: str, pause: float) -> None:
    servers = kafka()
    topic = new_topic(servers)
    with reading(servers, topic) as seen:
        zombie = child(servers, topic, point, 6, TICKS, "stop")
        _, status = os.waitpid(zombie.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        second = sink(servers, topic).prepare(TARGET)
        publish(second, 2, 3)
        time.sleep(pause)  # beyond the timeout of its transaction: the time of a broker is no argument
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=90)
        assert "OwnershipError Another run publishes to the topic" in said
        publish(second, 4, TICKS)  # and it has not stopped the replacement
        second.close()
        settled(servers, topic, seen)


def test_of_two_publishers_of_one_sink_the_older_is_fenced() -> None:
    servers = kafka()
    topic = new_topic(servers)
    first = sink(servers, topic).prepare(TARGET)
    publish(first, 1, 2)
    second = sink(servers, topic).prepare(TARGET)
    with pytest.raises(OwnershipError, match="Another run publishes to the topic"):
        publish(first, 3, 3)
    publish(second, 2, TICKS)
    second.close()
    final = read(servers, topic, at_least=TICKS * ROWS)
    judge(final, final)


def test_publishers_that_are_killed_at_any_moment_leave_every_row_once() -> None:
    servers, last, chance = kafka(), 60, random.Random(7)
    topic = new_topic(servers)
    killed = 0
    with reading(servers, topic) as seen:
        for _ in range(12):
            living = child(servers, topic, "", 0, last, "none")
            before, deadline = len(seen), time.monotonic() + 60
            while living.poll() is None and len(seen) == before and time.monotonic() < deadline:
                time.sleep(0.001)  # until it has published something
            time.sleep(chance.random() * 0.2)
            killed += living.poll() is None
            living.kill()
            living.communicate()
        final = sink(servers, topic).prepare(TARGET)
        known = final.marker
        publish(final, 1 if known is None else known.tick, last)
        final.close()
        assert killed >= 4
        settled(servers, topic, seen, ticks=last)

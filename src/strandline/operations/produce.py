"""Send lines of a file to a topic, one message for each."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from strandline.clients.kafka import Cluster, require_confluent
from strandline.errors import DataError, RunError
from strandline.operations.topics import partitions_of

MOST_WAITED: Final = 60.0  # seconds that a message may be under way


def produce(
    cluster: Cluster, topic: str, lines: Iterable[bytes], *, key: str | None = None, rate: float | None = None,
    raw: bool = False,
) -> int:  # fmt: skip
    """Send each line that is not blank as it stands, and say how many; all of them have arrived when it returns.

    A line must be JSON unless it is sent raw. `key` names the field that becomes the message's key: text as it is,
    anything else as JSON, null as no key. `rate` is how many are sent in a second.

    Of an error in the middle it is said how many lines before it have arrived.
    """
    partitions_of(cluster, topic)
    sending = _Sending(cluster, topic)
    with _interrupts(sending):
        return _produced(sending, lines, key=key, rate=rate, raw=raw)


def _produced(sending: _Sending, lines: Iterable[bytes], *, key: str | None, rate: float | None, raw: bool) -> int:
    start = time.monotonic()
    try:
        for number, line in enumerate(lines, 1):
            text = line.rstrip(b"\r\n")
            if not text.strip():
                continue
            found = None if raw else _key(text, key, number)
            if rate is not None:
                sending.wait(start + sending.sent / rate)
            sending.send(text, found)
    except (DataError, KeyboardInterrupt) as error:
        sending.finish()
        what = error.what if isinstance(error, DataError) else "It was interrupted."
        fix = error.fix if isinstance(error, DataError) else "Send the rest, or all of it to a new topic."
        raise DataError(f"{what} Sent before: {sending.arrived:,}.", fix=fix) from None
    sending.finish()
    return sending.arrived


@contextmanager
def _interrupts(sending: _Sending) -> Iterator[None]:
    """Ctrl-C waits while the client is at work: raised in the middle of what it tells, it would be lost, and that with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        sending.interrupted = sending.is_listening
        if not sending.interrupted:
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Sending:
    """A producer, and what became of what it was given."""

    is_listening = interrupted = False

    def __init__(self, cluster: Cluster, topic: str) -> None:
        require_confluent()
        from confluent_kafka import Producer

        self.cluster, self.topic = cluster, topic
        self.sent, self.arrived, self.error = 0, 0, ""
        settings = cluster.settings(enable_idempotence=True, linger_ms=5)
        settings["message.timeout.ms"] = int(MOST_WAITED * 1000)
        settings["partitioner"] = "murmur2_random"  # a key goes where Java's clients would send it
        self.producer: Any = Producer(settings)

    def send(self, value: bytes, key: bytes | None) -> None:
        from confluent_kafka import KafkaException

        while True:
            self._look()
            try:
                self.producer.produce(self.topic, value=value, key=key, on_delivery=self._told)
                break
            except BufferError:  # as many are under way as it can hold
                self._listen(0.1)
            except KafkaException as error:
                self._fail(str(error.args[0].str()))
        self.sent += 1
        self._listen(0)

    def wait(self, moment: float) -> None:
        """Wait for the moment, with an ear for what was sent."""
        while (left := moment - time.monotonic()) > 0:
            self._listen(min(left, 0.1))
            self._look()

    def _listen(self, seconds: float) -> None:
        self.is_listening = True
        try:
            self.producer.poll(seconds)
        finally:
            self.is_listening = False
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt

    def finish(self) -> None:
        """Wait for what is under way."""
        until = time.monotonic() + MOST_WAITED + 5.0  # each is given up by then, and its error told
        while len(self.producer) and time.monotonic() < until:
            self._listen(0.1)
        self._look()

    def _told(self, error: Any, _message: Any) -> None:
        if error is None:
            self.arrived += 1
        elif not self.error:
            self.error = error.str()

    def _look(self) -> None:
        if self.error:
            said, self.error = self.error, ""
            self._fail(said)

    def _fail(self, said: str) -> None:
        self.producer.flush(MOST_WAITED)  # so that what is said of the others is true
        raise RunError(
            f"A message did not reach {self.topic!r}: {self.cluster.said(said).rstrip('.')}. Sent before: {self.arrived:,}.",
            fix="See to the broker (strandline kafka status), or to the message, if that is refused.",
        ) from None


def _key(text: bytes, key: str | None, number: int) -> bytes | None:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DataError(
            f"Line {number} is no JSON: {error}.", fix="Mend it, or send lines as they are with --raw."
        ) from None
    if key is None:
        return None
    if not isinstance(row, dict) or key not in row:
        raise DataError(f"Line {number} has no field {key!r}.", fix="Name a field that each line has.")
    value = row[key]
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()

"""Deliveries to Redis: a tick in batches, the last of which moves the marker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import polars as pl

from strandline.clients.secrets import hide, reveal, revealed
from strandline.errors import RunError, SinkError
from strandline.kernel.changes import DELETE
from strandline.model.secrets import Secret
from strandline.model.time import Span
from strandline.sinks.contract import (
    ACKNOWLEDGE,
    OP,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Target,
    delivered_tables,
    judge_marker,
    own_marker,
)  # fmt: skip
from strandline.sinks.redis.entries import key_texts, sent_values
from strandline.sinks.redis.scripts import BEGIN, MARKER, WRITE, version_text
from strandline.sinks.redis.settings import require_usable, weaknesses

if TYPE_CHECKING:
    import redis

Answer = TypeVar("Answer")
Batch = tuple[list[str], list[str | bytes]]
"""The names of entries, and what is said of each of them in turn."""

_PIPELINED: Final = 8
_BATCH_BYTES: Final = 1_048_576
_TRIES: Final = 10
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_ANSWER_WITHIN: Final = 30.0


class RedisPublisher:
    """The entries under a prefix, open for deliveries."""

    def __init__(
        self, url: str, prefix: str, target: Target, *, ttl: Span | None, options: Sequence[tuple[str, str | Secret]],
        batch: int, wait: Span,
    ) -> None:  # fmt: skip
        self.url, self.prefix, self.target = url, prefix, target
        self.ttl, self.batch, self.wait = ttl, batch, wait
        self.secrets = [reveal(value) for _, value in options if isinstance(value, Secret)]
        self.lock = threading.Lock()  # the driver publishes from other threads than the one that prepared
        self.columns = [(name, target.schema[name]) for name in target.schema]
        self.key = [(name, target.schema[name]) for name in target.key]
        self.client = _client(url, revealed(options))
        try:
            self._reached("asked", lambda: require_usable(self.client, target))
            self.notes: Sequence[str] = self._reached(
                "asked", lambda: weaknesses(self.client, expiring=ttl is not None)
            )
            own_marker(self.marker, target)
        except BaseException:
            self.client.close()
            raise

    @property
    def marker(self) -> Marker | None:
        """The last delivery that was written whole."""
        return self._reached("read", self._marker)

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the rows of a tick, and move the marker with the last of them."""
        with self.lock:
            receipt = self._reached("written", Attempt(self, delivery))
            self.target = self.target.once_published
        return receipt

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self.client.close()

    def _marker(self) -> Marker | None:
        names = ["flow", "sink", "incarnation", "tick", "digest"]
        flow, sink, incarnation, tick, digest = self.client.hmget(MARKER + self.prefix, names)
        if flow is not None and (flow, sink) != (self.target.flow, self.target.sink) and not self.target.acknowledged:
            raise SinkError(
                f"The entries {self.prefix}* are those of the sink {sink!r} of the flow {flow!r}; {self.target} would "
                "overwrite them.",
                fix=f"Give another prefix; or {ACKNOWLEDGE}, and this sink takes them over.",
            )
        return None if tick is None else Marker(incarnation=str(incarnation), tick=int(tick), digest=str(digest))

    def _reached(self, done: str, ask: Callable[[], Answer]) -> Answer:
        """What Redis answers; while it cannot be reached it is asked again, until `wait` is over.

        To ask again is safe: everything that is done to Redis is done once, however often it is asked for.
        """
        import redis

        until, pause = None, _FIRST_PAUSE
        while True:
            try:
                return ask()
            except redis.AuthenticationError as error:  # noqa: PERF203 - it waits for a server
                self._fail(done, error, "Look at options=: who logs in, and with which password.")
            except (redis.ConnectionError, redis.TimeoutError) as error:
                now = time.monotonic()
                until = until or now + self.wait / 1_000_000  # from when it was lost, however long it was asked before
                left = until - now
                if left <= 0:
                    self._fail(
                        done,
                        error,
                        f"It was tried for {self.wait.text}. Start Redis, mend the url, or give a greater wait=.",
                    )
                self.client.connection_pool.disconnect()
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)
            except redis.RedisError as error:
                self._fail(
                    done, error, "Look at Redis and its settings; a tick can be written again as often as it takes."
                )

    def _fail(self, done: str, error: BaseException, fix: str) -> NoReturn:
        said = hide(str(error), self.secrets)
        # Without its cause, which might hold what was hidden.
        raise SinkError(
            f"The entries {self.prefix}* of {self.target} in {self.url} could not be {done}: {said.rstrip('.')}.",
            fix=fix,
        ) from None


class Attempt:
    """One delivery, tried until Redis has it. It may be called again after a connection was lost at any moment."""

    def __init__(self, publisher: RedisPublisher, delivery: Delivery) -> None:
        self.publisher, self.delivery = publisher, delivery
        self.rows: int | None = None

    def __call__(self) -> Receipt:
        """What came of it."""
        publisher, delivery = self.publisher, self.delivery
        for _ in range(_TRIES):
            seen = publisher._marker()
            if judge_marker(seen, delivery, publisher.target) == "skip":
                # Also where the answer to the last batch of an attempt before was lost.
                return SKIPPED if self.rows is None else Receipt(rows=self.rows)
            epoch = self._begun(seen)
            if epoch is not None and self._written(epoch):
                assert self.rows is not None
                return Receipt(rows=self.rows)
        raise SinkError(
            f"Another run writes to the entries {publisher.prefix}* of {publisher.target} at the same time.",
            fix="Stop it; only one may publish.",
        )

    def _begun(self, seen: Marker | None) -> int | None:
        """Begin the tick: its epoch, or None if the marker has moved since it was seen."""
        target, delivery = self.publisher.target, self.delivery
        before = ("", "", "") if seen is None else (seen.incarnation, str(seen.tick), seen.digest)
        acknowledged = "yes" if target.acknowledged else ""
        tick = str(delivery.tick)
        said, *more = self.publisher.client.eval(
            BEGIN, 1, MARKER + self.publisher.prefix,
            target.flow, target.sink, delivery.incarnation, tick, delivery.digest, acknowledged, *before,
        )  # fmt: skip
        if said == "begun":
            return int(more[0])
        if said == "moved":
            return None
        # What is under way is judged as if it were finished: it is another incarnation's, other rows', or ahead.
        digest = more[0] if said == "other" else ""
        whose = more[0] if said == "taken" else delivery.incarnation
        at = int(more[0]) if said == "ahead" else delivery.tick
        judge_marker(Marker(incarnation=whose, tick=at, digest=digest), delivery, target)
        raise AssertionError(f"the marker is refused: {said}")

    def _written(self, epoch: int) -> bool:
        """Write all rows of the tick; False if it is not under way any more."""
        rows = 0
        batches = self._batches()
        batch: Batch | None = next(batches, ([], []))
        while batch is not None:
            together = [batch, *islice(batches, _PIPELINED)]
            last = len(together) <= _PIPELINED
            first = together[:-1]
            rows += sum(len(names) for names, _ in first)
            if not self._sent(first, epoch):
                return False
            if last:  # alone: it moves the marker, so all others must have been written
                rows += len(together[-1][0])
                self.rows = rows
                return self._sent([together[-1]], epoch, finishing=True)
            batch = together[-1]
        raise AssertionError("a tick has a last batch")

    def _sent(self, batches: Sequence[Batch], epoch: int, *, finishing: bool = False) -> bool:
        publisher, delivery = self.publisher, self.delivery
        if not batches:
            return True
        expires = "" if publisher.ttl is None else str((delivery.now + publisher.ttl) // 1_000)
        about = [
            str(epoch), delivery.incarnation, str(delivery.tick), version_text(epoch, delivery.tick), expires,
            delivery.digest if finishing else "", str(len(publisher.columns)), *(name for name, _ in publisher.columns),
        ]  # fmt: skip
        pipeline = publisher.client.pipeline(transaction=False)
        for names, values in batches:
            pipeline.eval(WRITE, 1 + len(names), MARKER + publisher.prefix, *names, *about, *values)
        return all(answer == "written" for answer in pipeline.execute())

    def _batches(self) -> Iterator[Batch]:
        publisher = self.publisher
        for table in delivered_tables(publisher.target, self.delivery):
            bounded = table.height * _BATCH_BYTES // max(int(table.estimated_size()), 1)
            for part in table.iter_slices(max(min(publisher.batch, bounded), 1)):
                yield self._batch(part)

    def _batch(self, rows: pl.DataFrame) -> Batch:
        publisher = self.publisher
        names = [publisher.prefix + text for text in key_texts(rows, publisher.key)]
        columns = [sent_values(rows[name], kind) for name, kind in publisher.columns]
        said: list[str | bytes] = []
        for op, *values in zip(rows[OP].to_list(), *columns, strict=True):
            if op == DELETE:
                said.append("d")
            else:
                said.append("u")
                said += values
        return names, said


def _client(url: str, options: dict[str, str]) -> redis.Redis:
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise RunError(
            "The client of Redis is not installed.", fix="Install it: pip install 'strandline[redis]'."
        ) from None
    given: dict[str, Any] = {**options, "decode_responses": True, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis.from_url(url, socket_timeout=_ANSWER_WITHIN, socket_connect_timeout=5.0, **given)

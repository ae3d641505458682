"""Deliveries to a topic: each tick one transaction, or several if it is large, with the marker in each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar
from uuid import uuid4

import polars as pl

from strandline.errors import OwnershipError, SinkError, StrandlineError
from strandline.model.time import Span
from strandline.sinks.contract import (
    ACKNOWLEDGE,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Target,
    delivered_tables,
    own_marker,
)  # fmt: skip
from strandline.sinks.kafka.errors import Fenced, Unsettled
from strandline.sinks.kafka.markers import Progress, require_no_loss, rows_before
from strandline.sinks.kafka.messages import Encoding
from strandline.sinks.kafka.offsets import committed
from strandline.sinks.kafka.topic import Topic
from strandline.sinks.kafka.transactions import Transactions
from strandline.sinks.kafka.waiting import Repeated

T = TypeVar("T")
_DAY: Final = 86_400.0  # seconds
BLOCK: Final = 4_000
"""How many rows become messages at a time."""


class KafkaPublisher:
    """A topic, open for deliveries.

    The producer is kept across ticks, and what it committed last is where the topic is: nobody else can have moved the
    marker, for that would have fenced it. After any error it is given up; the next one fences, and reads the marker, if the
    marker still names this publisher, and not another one that took the topic over.
    """

    def __init__(
        self, topic: Topic, target: Target, encoding: Encoding, opens: Callable[[], Transactions], *, name: str,
        chunk_rows: int, wait: float, retention: Span | None, notes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.topic, self.target, self.encoding, self.opens, self.name = topic, target, encoding, opens, name
        self.chunk_rows, self.wait, self.retention, self.notes = chunk_rows, wait, retention, notes
        self.lock = threading.Lock()
        self.owner = uuid4().hex[:16]
        self.former: str | None = None
        self.transactions: Transactions | None = None
        self.progress: Progress | None = None
        self.taken_over: Exception | None = None
        try:
            self._patiently("prepared", self._open_first)
        except BaseException:
            self._give_up()
            topic.close()
            raise
        every = _DAY if retention is None else min(retention / 4_000_000, _DAY)
        self.renewal = Repeated(every, self.renew, name=f"marker of {target.sink}")

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the topic shows whole."""
        with self.lock:
            found = self._patiently("read", self._committed)
        return None if found is None else found.whole

    def publish(self, delivery: Delivery) -> Receipt:
        """Publish the rows of a tick and its marker, once."""
        with self.lock:
            if self.taken_over is not None:
                raise self.taken_over
            start = self._had(delivery)
            if start is None:
                if _marker_of(self.progress) is not None:  # else what was acknowledged is still to be gone on from
                    self.target = self.target.once_published
                return SKIPPED
            self._patiently(f"published at tick {delivery.tick}", lambda: self._publish(delivery))
        self.target = self.target.once_published
        assert self.progress is not None, "a delivery leaves its progress"
        return Receipt(rows=self.progress.rows - start)

    def renew(self) -> None:
        """Commit the marker once more, as it is: it expires, also while a flow runs that has no rows for this sink."""
        with self.lock:
            try:
                if self.transactions is None:
                    self._tried(self._opened_again)
                self._tried(self._commit_again)
            except Fenced as error:
                self._give_up()
                self.taken_over = self._told_taken_over(str(error))
            except (Unsettled, StrandlineError):
                self._give_up()  # the next renewal tries again with a new producer; the next delivery tells what is wrong

    def close(self) -> None:
        """Let go of the producer."""
        self.renewal.close()
        with self.lock:
            self._give_up()
            self.topic.close()

    def _committed(self, *, settled: bool = True) -> Progress | None:
        return committed(self.topic.cluster, self.topic.name, self.name, wait=self.wait, settled=settled)

    def _open_first(self) -> None:
        # Looked at before anybody is fenced: a start that is refused must not stop a run that is not.
        own_marker(_marker_of(self._committed(settled=False)), self.target)
        self._open()
        if self.progress is None:
            self.progress = Progress(owner=self.owner, unmarked=not self.topic.is_empty())
        self.former = self.progress.owner
        require_no_loss(self.progress, self.target)
        self._commit_again()

    def _open(self) -> Transactions:
        self.transactions = self.opens()
        found = self._committed()
        own_marker(_marker_of(found), self.target)
        self._require_not_back(found)
        self.progress = found or self.progress
        return self.transactions

    def _commit_again(self) -> None:
        """Say that this publisher has the topic now, or still, and nothing else."""
        assert self.transactions is not None, "opened before"
        assert self.progress is not None, "the first look at the topic leaves one"
        progress = replace(self.progress, owner=self.owner)
        self.transactions.begin()
        self.transactions.mark(progress)
        self.transactions.commit()
        self.progress = progress

    def _require_not_back(self, found: Progress | None) -> None:
        """SinkError if the marker is behind what this publisher itself has committed."""
        known = self.progress
        if known is None or known.marker is None or known.owner != self.owner:
            return
        if found is not None and found.place >= known.place:
            return
        raise SinkError(
            f"The marker of {self.target} is gone or went back, behind tick {known.place[0]}: the group {self.name!r} or the topic "
            "was deleted, or brokers lost what they had acknowledged.",
            fix=f"Look at what the topic holds; then {ACKNOWLEDGE} to go on, and leave the topic as it is.",
        )

    def _had(self, delivery: Delivery) -> int | None:
        assert self.progress is not None, "the first look at the topic leaves one"
        had = rows_before(self.progress, delivery, self.target)
        if had == 0 and self.progress.marker is None:
            last = self.target.last
            if last is not None and last.incarnation == delivery.incarnation and delivery.tick <= last.tick:
                return None  # a run that ended well has published it; that its marker is gone was acknowledged
            if self.progress.unmarked:
                self._require_young(delivery)
        return had

    def _require_young(self, delivery: Delivery) -> None:
        """SinkError if the first tick of all is so old that its marker may have expired: was it published? Nobody knows."""
        if self.target.acknowledged:
            return
        # Where the broker does not tell how long, it is not trusted for more than a day.
        kept = self.retention or Span(int(_DAY * 1_000_000))
        age = Span(int(time.time() * 1_000_000) - delivery.now)
        if age <= kept:
            return
        raise SinkError(
            f"The topic of {self.target} has no marker, and tick {delivery.tick} is older than the broker keeps one "
            f"(offsets.retention.minutes: {kept.text}): nobody can tell whether its rows are in the topic.",
            fix=f"Look into the topic. If they are not there, {ACKNOWLEDGE}, and they are published; else delete them first.",
        )

    def _publish(self, delivery: Delivery) -> None:
        """Publish what the topic does not have yet of a delivery, chunk by chunk."""
        transactions = self.transactions or self._opened_again()
        done = rows_before(self.progress, delivery, self.target)
        if done is None:
            return  # a transaction of which nobody knew what had come of it
        for chunk, last in _told_the_last(self._chunks(delivery, done)):
            left: list[pl.DataFrame] | None = chunk
            while left is not None:
                left, done = self._commit_chunk(transactions, delivery, left, done, last=last)

    def _commit_chunk(
        self, transactions: Transactions, delivery: Delivery, blocks: list[pl.DataFrame], done: int, *, last: bool
    ) -> tuple[list[pl.DataFrame] | None, int]:
        """Publish blocks in one transaction; those for which it would be open too long are left, and None if there are none.

        The marker is sent first: it travels while messages are made.
        """
        rows = done + sum(block.height for block in blocks)
        progress = self._progress(delivery, rows, complete=last)
        transactions.begin()
        transactions.mark(progress)
        left = None
        for number, block in enumerate(blocks, 1):
            transactions.send(self.encoding.messages(block, delivery))
            done += block.height
            if number < len(blocks) and transactions.age > transactions.timeout / 2:
                left = blocks[number:]
                progress = self._progress(delivery, done, complete=False)
                transactions.mark(progress)
                break
        transactions.commit()
        self.progress = progress
        return left, done

    def _progress(self, delivery: Delivery, rows: int, *, complete: bool) -> Progress:
        before = None if complete or self.progress is None else own_marker(self.progress.whole, self.target)
        return Progress(owner=self.owner, marker=Marker.of(delivery), rows=rows, complete=complete, before=before)

    def _chunks(self, delivery: Delivery, had: int) -> Iterator[list[pl.DataFrame]]:
        """The rows of a delivery behind the first `had`, in order: for each transaction some blocks; at least one of none."""
        chunk: list[pl.DataFrame] = []
        room = self.chunk_rows
        for block in self._blocks(delivery, had):
            if block.height > room:
                yield chunk
                chunk, room = [], self.chunk_rows
            chunk.append(block)
            room -= block.height
        yield chunk

    def _blocks(self, delivery: Delivery, had: int) -> Iterator[pl.DataFrame]:
        size = min(BLOCK, self.chunk_rows)
        for table in delivered_tables(self.target, delivery):
            rest = table[min(had, table.height) :]
            had -= table.height - rest.height
            yield from rest.iter_slices(size) if rest.height else ()

    def _opened_again(self) -> Transactions:
        """A new producer behind one that was given up, unless another publisher took the topic over meanwhile."""
        self._require_own(self._committed(settled=False), self.former)  # whose name may only not be settled yet
        transactions = self._open()
        self._require_own(self.progress)
        return transactions

    def _require_own(self, found: Progress | None, *others: str | None) -> None:
        if found is not None and found.owner not in (self.owner, *others):
            raise self._told_taken_over("the marker names another")

    def _patiently(self, done: str, work: Callable[[], T]) -> T:
        """Do it, again and again while brokers do not answer, for as long as is waited for them."""
        deadline, pause = time.monotonic() + self.wait, 0.1
        while True:
            try:
                return self._tried(work)
            except Fenced as error:
                self._give_up()
                if error.age < error.limit:
                    raise self._told_taken_over(str(error)) from error
                # The broker itself ended the transaction; whether another publisher is there, the marker tells.
                said = f"a transaction was open for {error.age:.0f} s, and the broker ended it after {error.limit:g} s"
            except Unsettled as error:
                said = str(error)
            if time.monotonic() >= deadline:
                raise SinkError(
                    f"The topic {self.topic.name!r} of {self.target} could not be {done} within {self.wait:g} s: {said}.",
                    fix="Look at the brokers, and start the flow again: what was committed is told by the marker. If publishing "
                    "takes so long, give a greater transaction_timeout= or a smaller chunk_rows=.",
                )
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _tried(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Fenced:
            raise
        except BaseException:
            # Readers would wait for a transaction that is left open until it is too old.
            transactions, self.transactions = self.transactions, None
            if transactions is not None:
                transactions.abort()
                transactions.drop()
            raise

    def _told_taken_over(self, said: str) -> Exception:
        return OwnershipError(
            f"Another run publishes to the topic {self.topic.name!r} of {self.target}, and has taken it over from this one: {said}.",
            fix="Run one of them only; nothing was published twice.",
        )

    def _give_up(self) -> None:
        transactions, self.transactions = self.transactions, None
        if transactions is not None:
            transactions.drop()


def _told_the_last(items: Iterator[T]) -> Iterator[tuple[T, bool]]:
    """Each with whether it is the last.

    >>> list(_told_the_last(iter("ab")))
    [('a', False), ('b', True)]
    """
    item = next(items)
    for following in items:
        yield item, False
        item = following
    yield item, True


def _marker_of(progress: Progress | None) -> Marker | None:
    return None if progress is None else progress.marker

"""What a sink promises, and what it may rely on.

A *sink* is a frozen description: where rows go, and in which form. Before a flow starts, `prepare` is asked once: it
looks at the target, makes what is missing, and says now what could only go wrong later. It gives a *publisher*.

`publish` is given the rows of one tick, a *delivery*. The tick is committed before it is delivered, and its rows are
read from files, so that a delivery that is made again brings the same rows. What a publisher may rely on: ticks come
in order, from one thread at a time (not always the same one), and a tick without rows for the sink is not delivered.

What it owes: **the rows of a tick and the marker that says so appear in one atomic act**. The marker is the
(incarnation, tick, digest) of the last delivery. Whatever is killed, and whenever, the target shows both or neither;
so after a crash the same delivery is made again, and is either skipped or takes effect for the first time. `judge`
compares marker and delivery, the same way for all sinks:

    no marker                               publish
    marker of an earlier tick               publish
    marker from before the last delivery    error: what was delivered is gone, unless the user acknowledged it
    marker of this tick, same digest        skip: it was published before
    marker of this tick, another digest     error: the target holds other rows for this tick
    marker of a later tick                  error: the target is ahead of the state
    marker of another incarnation           error, unless the user acknowledged it: then it is taken over, once

A sink that cannot do this (a terminal, a user's function) delivers *at least once*, and its `guarantee` says so.

A sink whose target has one marker, or whose rows overwrite each other, cannot share it with another sink of the same
flow: by `own_target` (see `strandline.model.targets`) it says what it needs for itself, and `flow.check()` refuses a
second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, runtime_checkable

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.model.types import Schema, Type

Rows = Literal["append", "changelog", "upsert"]
Verdict = Literal["publish", "skip"]

OP: Final = "op"
ACKNOWLEDGE: Final = "say run(acknowledged=True) (--acknowledge)"
ALL_ROWS: Final = frozenset({"append", "changelog", "upsert"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """For whom a sink is prepared, and what will be delivered.

    `schema` holds the columns without `op`. `key` names the columns that tell rows apart, where `rows` is "upsert".
    `acknowledged` lets a marker of another incarnation be taken over, and one that went back be gone on from.
    `restored_from` is the incarnation before, at a start from a savepoint. `last` is the last delivery before, where a run
    that ended well has written it down. `spark` gives the Spark session to those who ask.

    >>> target = Target(flow="f", sink="s", incarnation="i", schema=Schema.of("n long"), rows="changelog")
    >>> target.delivered.text
    'n bigint, op string'
    """

    flow: str
    sink: str
    incarnation: str
    schema: Schema
    rows: Rows = "append"
    key: tuple[str, ...] = ()
    acknowledged: bool = False
    restored_from: str | None = None
    last: Marker | None = None
    spark: Callable[[], Any] | None = None

    @property
    def delivered(self) -> Schema:
        """The columns of every table delivered: the schema's, and `op` where rows are changes."""
        if self.rows == "append" or OP in self.schema:
            return self.schema
        return Schema((*self.schema.columns, (OP, Type.of("string"))))

    @property
    def once_published(self) -> Target:
        """The target as it is to a run that has published to it: what was acknowledged is what was found at the start.

        A marker of another incarnation means from then on that another run has taken the target over.
        """
        return replace(self, acknowledged=False) if self.acknowledged else self

    def __str__(self) -> str:
        return f"the sink {self.sink!r} of the flow {self.flow!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The rows of one tick for one sink. `tables` may be called again, and gives the same rows each time.

    With rows="changelog" the column `op` is "insert" or "retract"; with "upsert" it is "upsert" or "delete", and each
    key stands at most once. `after` is the tick of the delivery before this one, in the same incarnation; None where there
    was none, or nobody knows.
    """

    tick: int
    incarnation: str
    digest: str
    now: Instant
    rows: int
    tables: Callable[[], Iterator[pl.DataFrame]]
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of a delivery: how many rows took effect, or that it was published before."""

    rows: int
    skipped: bool = False


SKIPPED: Final = Receipt(rows=0, skipped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The last delivery that a target shows. It moves in the same atomic act as the rows."""

    incarnation: str
    tick: int
    digest: str

    @classmethod
    def of(cls, delivery: Delivery) -> Marker:
        """The marker that a delivery leaves."""
        return cls(incarnation=delivery.incarnation, tick=delivery.tick, digest=delivery.digest)


class Publisher(Protocol):
    """A prepared target, open for deliveries."""

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the target shows, as far as it can tell; a run that starts asks it what is missing."""

    def publish(self, delivery: Delivery) -> Receipt:
        """Make the rows of a tick visible, once."""

    def close(self) -> None:
        """Let go of connections and files. Nothing is published here."""


@runtime_checkable
class Telling(Protocol):
    """A publisher that found something at the start that people should know."""

    @property
    def notes(self) -> Sequence[str]:
        """A sentence for each: what a reader must do, or which setting of the server weakens the guarantee."""


class Sink(Protocol):
    """A description of where rows go."""

    @property
    def guarantee(self) -> str:
        """One sentence: exactly once or at least once, and on which conditions."""

    @property
    def takes(self) -> frozenset[str]:
        """Which of "append", "changelog" and "upsert" it can do."""

    def prepare(self, target: Target) -> Publisher:
        """Check the target, or make it; SinkError when it cannot be used."""


def judge_marker(marker: Marker | None, delivery: Delivery, target: Target, *, kept: bool = True) -> Verdict:
    """Whether a delivery takes effect or was published before; SinkError if it is neither.

    `kept` says that the target keeps its marker when the process ends.

    Law: after a delivery took effect, the same delivery is skipped, and no earlier one takes effect.

    >>> target = Target(flow="f", sink="s", incarnation="i", schema=Schema.of("n long"))
    >>> seven = Delivery(tick=7, incarnation="i", digest="ab", now=Instant(0), rows=1, tables=lambda: iter(()))
    >>> judge_marker(None, seven, target), judge_marker(Marker.of(seven), seven, target)
    ('publish', 'skip')
    """
    if delivery.incarnation != target.incarnation:
        raise SinkError(
            f"A delivery of the incarnation {delivery.incarnation!r} came to {target}, prepared for {target.incarnation!r}.",
            fix="Stop the other run of this flow; only one may publish.",
        )
    own = own_marker(marker, target)
    if own is None or own.tick < delivery.tick:
        if kept:
            _require_last(own, delivery, target)
        return "publish"
    if own.tick > delivery.tick:
        raise SinkError(
            f"The target of {target} is at tick {own.tick}; tick {delivery.tick} comes too late.",
            fix="The state is older than what was published: run with the state that published it, or give the sink a new target.",
        )
    if own.digest != delivery.digest:
        raise SinkError(
            f"The target of {target} holds other rows for tick {own.tick} (digest {own.digest}, now {delivery.digest}).",
            fix="Another run published this tick: run with the state that published it, or give the sink a new target.",
        )
    return "skip"


def _require_last(own: Marker | None, delivery: Delivery, target: Target) -> None:
    """SinkError if the target does not show the delivery before this one: a file or a table was lost, or is another."""
    if delivery.after is None or target.acknowledged or (own is not None and own.tick >= delivery.after):
        return
    there = "shows no delivery" if own is None else f"is at tick {own.tick}"
    raise SinkError(
        f"The target of {target} {there}, but tick {delivery.after} was published to it: rows are missing there.",
        fix=f"Put the target back as it was; or {ACKNOWLEDGE} if they may stay missing, in a new target, say.",
    )


def own_marker(marker: Marker | None, target: Target) -> Marker | None:
    """The marker, if it is of this incarnation; None for one that is taken over; else SinkError. `prepare` asks it too.

    >>> target = Target(flow="f", sink="s", incarnation="new", schema=Schema.of("n long"), acknowledged=True)
    >>> print(own_marker(Marker(incarnation="old", tick=150, digest="ab"), target))
    None
    """
    if marker is None or marker.incarnation == target.incarnation:
        return marker
    if target.acknowledged:
        return None
    raise SinkError(
        f"The target of {target} holds rows up to tick {marker.tick} of another incarnation ({marker.incarnation!r}; this is "
        f"{target.incarnation!r}): the state was made anew, restored or forked since.",
        fix=f"Give the sink a new, empty target; or {ACKNOWLEDGE}: the rows there stay, and new ones are added to them.",
    )


def require_rows(target: Target, takes: frozenset[str]) -> None:
    """Refuse rows of a kind that the sink cannot do, an upsert without a key, and a key without its columns.

    The check of the flow says this first; a sink may also be used without one.
    """
    if target.rows not in takes:
        raise SinkError(
            f"{target} asks for rows={target.rows!r}, which this sink cannot do.".replace("the", "The", 1),
            fix=f"It takes {' or '.join(map(repr, sorted(takes)))}.",
        )
    if target.rows == "upsert" and not target.key:
        raise SinkError(
            f"Nothing says which rows of {target} are the same row.", fix="Name the columns: .sink(..., key=['user'])."
        )
    missing = [name for name in target.key if name not in target.schema]
    if missing:
        raise SinkError(
            f"The key of {target} names {', '.join(map(repr, missing))}, which is not delivered.",
            fix=f"Choose from {', '.join(map(repr, target.schema))}.",
        )


def delivered_tables(target: Target, delivery: Delivery) -> Iterator[pl.DataFrame]:
    """The tables of a delivery that have rows, each with exactly the columns that were promised."""
    promised = polars_schema(target.delivered)
    for table in delivery.tables():
        wrong = [name for name, dtype in promised.items() if table.schema.get(name) != dtype]
        if wrong:
            found = {name: table.schema.get(name) for name in wrong}
            raise SinkError(
                f"Tick {delivery.tick} brought {target} other columns than promised: {found}, not "
                f"{ {name: promised[name] for name in wrong} }.",
                fix="Start the flow again, so that the sink is prepared for the columns that come now.",
            )
        if table.height:
            yield table.select(list(promised))

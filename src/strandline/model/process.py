"""A user's own code for each key: what it remembers, when it is woken, and what it gives.

A process is a class. What it remembers of a key stands in its body as descriptions, and is there as plain Python on
`self` while the key's events are handed to it:

    class Velocity(sl.Process):
        count = sl.Value("bigint", 0)                # self.count += 1
        amounts = sl.List("double")                  # self.amounts.append(...)
        by_shop = sl.Map("string", "bigint")         # self.by_shop[shop] = ...
        mean = sl.Running(sl.Mean("amount"))         # self.mean.add(event); self.mean.result
        silent = sl.Timer("30m")                     # self.silent.set(after="30m")

        def on_event(self, event, out):
            self.count += 1
            out.emit(user=event["user"], count=self.count)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from strandline.errors import DescriptionError, told
from strandline.model.aggregates import Aggregate, Count, Max, Mean, Min, Sum
from strandline.model.time import Span
from strandline.model.types import Type, array_of
from strandline.model.values import checked_value

if TYPE_CHECKING:
    from strandline.model.processing import Output

Clock = Literal["event", "processing"]
Since = Literal["write", "read"]
Tables = Literal["polars", "arrow"]
RUNNING = (Count, Sum, Mean, Min, Max, Aggregate)


class _OnSelf:
    """What a class body describes is plain Python on `self`; type checkers are told so here, others in model/processing."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __get__(self, process: object, owner: type) -> Any: ...
        def __set__(self, process: object, value: Any) -> None: ...


@dataclass(frozen=True, slots=True, init=False)
class Value(_OnSelf):
    """One value of a type; `default` where nothing was remembered."""

    kind: Type
    default: Any

    def __init__(self, type: str, default: Any = None) -> None:
        kind = Type.of(type)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "default", checked_value(kind, default, f"The default of Value({kind.text!r})"))


@dataclass(frozen=True, slots=True, init=False)
class List(_OnSelf):
    """A list of values of a type, empty at first."""

    kind: Type

    def __init__(self, type: str | Type) -> None:
        object.__setattr__(self, "kind", array_of(Type.of(type)))


@dataclass(frozen=True, slots=True, init=False)
class Map(_OnSelf):
    """A dictionary from values of one type to values of another, empty at first."""

    kind: Type

    def __init__(self, key: str, value: str) -> None:
        object.__setattr__(self, "kind", Type.of(f"array<struct<key:{key},value:{value}>>"))


@dataclass(frozen=True, slots=True)
class Running(_OnSelf):
    """An aggregate that the process adds events to: Count, Sum, Mean, Min and Max, or a user's own."""

    aggregate: Any

    def __post_init__(self) -> None:
        if not isinstance(self.aggregate, RUNNING):
            raise DescriptionError(
                f"Running({told(self.aggregate)}) cannot be kept by a process.",
                fix="Use Count(), Sum, Mean, Min or Max of a column, or an aggregate of your own; or keep a Value.",
            )
        if self.aggregate.where is not None:
            raise DescriptionError(
                "where= of an aggregate means nothing in a process.", fix="Add only the events that count, in on_event."
            )

    @property
    def kind(self) -> Type:
        """As what it is kept: JSON text."""
        return Type.of("string")


@dataclass(frozen=True, slots=True, init=False)
class Timer(_OnSelf):
    """Wakes the key at a time, in event time or by the clock; never later than `longest` after it was set."""

    longest: Span
    clock: Clock

    def __init__(self, longest: str | timedelta | Span, clock: Clock = "event") -> None:
        span = Span.of(longest)
        if span <= 0:
            raise DescriptionError(
                f"Timer({span.text!r}) can never be set.", fix="Give the longest time that it waits: Timer('30m')."
            )
        object.__setattr__(self, "longest", span)
        object.__setattr__(self, "clock", _clock(clock))


@dataclass(frozen=True, slots=True, init=False)
class TTL:
    """How long a key is remembered since it was last written, or read, in event time or by the clock."""

    span: Span
    since: Since
    clock: Clock

    def __init__(self, span: str | timedelta | Span, since: Since = "write", clock: Clock = "event") -> None:
        length = Span.of(span)
        if length <= 0:
            raise DescriptionError(f"TTL({length.text!r}) remembers nothing.", fix="Give a longer span: TTL('2h').")
        if since not in get_args(Since):
            raise DescriptionError(f"since={told(since)} is not known.", fix="Give 'write' or 'read'.")
        object.__setattr__(self, "span", length)
        object.__setattr__(self, "since", since)
        object.__setattr__(self, "clock", _clock(clock))


def _clock(clock: object) -> Any:
    if clock not in get_args(Clock):
        raise DescriptionError(f"clock={told(clock)} is not known.", fix="Give 'event' or 'processing'.")
    return clock


class Process(ABC):
    """A user's own code, one event at a time. It is made once in each worker, without arguments.

    Nothing but what is described in the class body outlives an event: whatever else is set on `self` in `open` is of the
    worker, and must not change what is given out.
    """

    def open(self) -> None:  # noqa: B027 - who needs none writes none
        """Called once in each worker before the first event: load a model, say."""

    @abstractmethod
    def on_event(self, event: Mapping[str, Any], out: Output) -> None:
        """An event of a key; its state is on `self`."""

    def on_timer(self, timer: str, out: Output) -> None:  # noqa: B027
        """A timer of the key rings; `out.time` is the time for which it was set."""


class TableProcess(ABC):
    """A user's own code in columns: the events of many keys at once, and a row of state for each of these keys.

    Its state is of `sl.Value` alone, and it has no timers. `tables` says what it is given and gives back: Polars frames, or
    Arrow tables.
    """

    tables: ClassVar[Tables] = "polars"

    def open(self) -> None:  # noqa: B027 - who needs none writes none
        """Called once in each worker before the first tick."""

    @abstractmethod
    def on_events(self, events: Any, state: Any) -> tuple[Any, ...]:
        """What comes out, and the state after it; then, if there are sides, a mapping of their names to what comes out there.

        A key that is not in the state that is given back is forgotten.

        `events` stand by key, and those of a key in the order that the stage asks for; the column `__time` is their time in
        microseconds, and every row that comes out has one. `state` has one row for each key in `events`, with what is
        remembered or else the defaults: these too where it has expired when the first of the key's events comes. State that is
        given back as it was is not written, which matters to `sl.TTL(..., since="write")`; what is written counts from the time
        of the key's latest event.
        """


Kept: TypeAlias = Value | List | Map | Running
Field: TypeAlias = Kept | Timer


def fields_of(process: type[Process] | type[TableProcess]) -> dict[str, Field]:
    """What the class body describes, in the order of names: a class that travels to a worker by value loses its own."""
    found: dict[str, Field] = {}
    for owner in reversed(process.__mro__):
        found |= {name: each for name, each in vars(owner).items() if isinstance(each, Field)}
    return dict(sorted(found.items()))


def kept_of(process: type[Process] | type[TableProcess]) -> dict[str, Kept]:
    """What is remembered of a key."""
    return {name: each for name, each in fields_of(process).items() if not isinstance(each, Timer)}


def timers_of(process: type[Process] | type[TableProcess]) -> dict[str, Timer]:
    """The timers that a key may set."""
    return {name: each for name, each in fields_of(process).items() if isinstance(each, Timer)}

"""Hand a key's events to a user's process: put its state on `self`, take it off again, and hold it to what was described."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from strandline.errors import DataError, DescriptionError, StrandlineError, did_you_mean, raised_by
from strandline.model.process import Kept, List, Map, Process, Running, Timer, Value, kept_of, timers_of
from strandline.model.running_aggregates import RunningAggregate
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.model.users import ask
from strandline.model.values import LIMIT, checked_row, checked_value

_NO_VALUES: Final[Mapping[str, Any]] = {}
# What cannot be changed where it stands, and so need not be copied.
_PLAIN: Final = frozenset((int, float, str, bool, bytes, type(None), datetime, date, timedelta, Decimal))
# The types whose every value a column holds as it is, but for the greatest numbers.
_HELD_AS: Final[Mapping[str, type]] = {"bigint": int, "double": float, "boolean": bool, "binary": bytes}


class Moment(NamedTuple):
    """Where an event or a timer stands: its own time, the watermark before the tick, and the time of day."""

    time: int
    watermark: Instant
    now: Instant


@dataclass(slots=True)
class KeyState:
    """What is remembered of a key: values by name, timers that are set (name to time), and when it expires, if ever.

    `latest` is the greatest event time that it has seen.
    """

    values: dict[str, Any]
    timers: dict[str, int] = field(default_factory=dict)
    expires: int | None = None
    latest: int = int(Instant.BEFORE_ALL_TIME)


@dataclass(slots=True)
class Output:
    """What a process may know of its moment, and where it puts what it gives."""

    key: Mapping[str, Any]
    _moment: Moment
    _rows: list[tuple[str | None, dict[str, Any], int]]

    @property
    def time(self) -> datetime:
        """The time of the event, or for which the timer was set; rows that are emitted have it.

        A timer may be set for later than the last moment of the year 9999, and is told to be of that moment.
        """
        return _in_calendar(self._moment.time)

    @property
    def watermark(self) -> datetime | None:
        """The watermark before the tick; None as long as there is none, and when there are no more events."""
        return self._moment.watermark.moment if self._moment.watermark.in_calendar else None

    @property
    def now(self) -> datetime:
        """The tick's processing time."""
        return self._moment.now.moment

    def emit(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        """Give a row out as it is now; columns that are left out are null."""
        self._rows.append((None, _kept_row({**(row or {}), **columns}), self._moment.time))

    def side(self, name: str, row: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        """Give a row out at a side."""
        self._rows.append((name, _kept_row({**(row or {}), **columns}), self._moment.time))


def _in_calendar(time: int) -> datetime:
    return Instant(min(max(time, Instant.FIRST_IN_CALENDAR), Instant.LAST_IN_CALENDAR)).moment


def _kept_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row that what the process does later cannot change."""
    for name, value in row.items():
        if type(value) not in _PLAIN:
            row[name] = copied(value)
    return row


def copied(value: Any) -> Any:
    """The same value, of lists and dictionaries of its own all the way down."""
    if isinstance(value, list | tuple):
        return [copied(each) for each in value]
    if isinstance(value, Mapping):
        return {name: copied(each) for name, each in value.items()}
    return value


class SetTimer:
    """A timer of the key at hand."""

    def __init__(self, bench: Bench, name: str, timer: Timer) -> None:
        self._bench, self._name, self._timer = bench, name, timer

    @property
    def at(self) -> datetime | None:
        """When it rings, if it is set."""
        at = self._bench.timers.get(self._name)
        return None if at is None else _in_calendar(at)

    def set(self, at: str | datetime | int | None = None, *, after: str | timedelta | Span | None = None) -> None:
        """Let it ring at an instant, or some time after this moment; a time that it was set for before is forgotten."""
        if (at is None) == (after is None):
            raise DataError(f"The timer {self._name!r} is set for nothing, or twice.", fix="Give at= or after=.")
        moment = self._bench.moment
        here = moment.time if self._timer.clock == "event" else int(moment.now)
        then = int(Instant.of(at)) if at is not None else here + int(Span.of(after or Span(0)))
        if then <= here and self._bench.ringing:
            raise DataError(
                f"The timer {self._name!r} is set for a moment that has passed while a timer rings: it might ring for ever.",
                fix="Set it for later than out.time (or out.now, for a timer by the clock).",
            )
        if then - here > self._timer.longest:
            raise DataError(
                f"The timer {self._name!r} is set for {Span(then - here).text} from now, and may wait for {self._timer.longest.text}.",
                fix=f"Describe a longer one: {self._name} = sl.Timer({Span(then - here).text!r}).",
            )
        self._bench.timers[self._name] = then

    def clear(self) -> None:
        """Let it not ring."""
        self._bench.timers.pop(self._name, None)


class Bench:
    """A process at work: one instance of the user's class, with the state of one key on it at a time."""

    def __init__(self, process: type[Process], output: Schema, sides: Mapping[str, Schema]) -> None:
        self.name = process.__name__
        self.kept, self.described = kept_of(process), timers_of(process)
        self.schemas: dict[str | None, Schema] = {None: output}
        self.schemas.update(sides.items())
        self.columns = {side: frozenset(schema) for side, schema in self.schemas.items()}
        self.closers = {name: _closer(self.name, name, each) for name, each in self.kept.items()}
        self.process = ask(self.name, process)
        ask(f"{self.name}.open", self.process.open)
        self._on_event = self.process.on_event
        self.timers: dict[str, int] = {}
        self.moment = Moment(0, Instant(0), Instant(0))
        self.rows: list[tuple[str | None, dict[str, Any], int]] = []
        self.ringing = False
        self.hands = {name: SetTimer(self, name, timer) for name, timer in self.described.items()}
        for name, hand in self.hands.items():
            setattr(self.process, name, hand)

    def take_up(self, state: KeyState | None) -> None:
        """Put what is remembered of a key on the process; None is a key that nobody knows."""
        values = _NO_VALUES if state is None else state.values
        self.timers = {} if state is None else dict(state.timers)
        process = self.process
        for name, described in self.kept.items():
            setattr(process, name, opened(described, values.get(name)))

    def event(self, key: Mapping[str, Any], row: Mapping[str, Any], moment: Moment) -> None:
        """Hand an event over."""
        self._call(self._on_event, row, key, moment)

    def ring(self, key: Mapping[str, Any], timer: str, moment: Moment) -> None:
        """Let a timer ring, which is not set any more then."""
        self.timers.pop(timer, None)
        self.ringing = True
        try:
            self._call(self.process.on_timer, timer, key, moment)
        finally:
            self.ringing = False

    def _call(self, method: Any, given: Any, key: Mapping[str, Any], moment: Moment) -> None:
        self.moment = moment
        try:
            method(given, Output(key, moment, self.rows))
        except StrandlineError:
            raise
        except Exception as error:
            raise DataError(raised_by(method, error), fix=f"Mend it; it was given {given!r}.") from error

    def state(self) -> dict[str, Any]:
        """What is to be remembered of the key, as plain values of the described types."""
        process = self.process
        for name, hand in self.hands.items():
            if getattr(process, name, None) is not hand:
                raise DataError(
                    f"{self.name} put {getattr(process, name, None)!r} in the place of its timer {name!r}.",
                    fix=f"Write self.{name}.set(after='10s'), or self.{name}.clear().",
                )
        return {name: close(getattr(process, name)) for name, close in self.closers.items()}

    def take_rows(self) -> list[tuple[str | None, dict[str, Any], int]]:
        """What was given out since this was last asked, with the name of the side and the time."""
        rows, self.rows[:] = self.rows[:], []
        for side, row, _ in rows:
            if side not in self.columns:
                names = [str(name) for name in self.schemas if name is not None]
                raise DataError(f"{self.name} gives rows to the side {side!r}.", fix=did_you_mean(str(side), names))
            if not row.keys() <= self.columns[side]:
                wrong = next(name for name in row if name not in self.columns[side])
                fix = did_you_mean(str(wrong), self.schemas[side])
                raise DataError(f"{self.name} gives out a column {wrong!r}.", fix=fix)
        return rows

    def checked(self, side: str | None, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row that was given out, each value as its column holds it."""
        try:
            return checked_row(self.schemas[side] or Schema(()), row, f"What {self.name} gives out")
        except DescriptionError as error:
            raise DataError(error.what, fix=error.fix) from None


def opened(described: Kept, value: Any) -> Any:
    """A value that was kept, as the process sees it: what is kept is not changed by what becomes of it there."""
    if isinstance(described, Value):
        if value is not None:
            return value if type(value) in _PLAIN else copied(value)
        return described.default if type(described.default) in _PLAIN else copy.deepcopy(described.default)
    if isinstance(described, Running):
        return RunningAggregate.of(described.aggregate, value)
    if isinstance(described, Map):
        return {each["key"]: copied(each["value"]) for each in value or ()}
    return copied(value or [])


def _closer(process: str, name: str, described: Kept) -> Callable[[Any], Any]:
    """`closed` for one field; of values that are as their column holds them this is known at a glance."""
    plain = _HELD_AS.get(described.kind.name) if isinstance(described, Value) else None
    default = described.default if isinstance(described, Value) else None

    def close(value: Any) -> Any:
        kind: object = type(value)
        if kind is plain and value != default and (kind is not int or -LIMIT <= value < LIMIT):
            return value
        return closed(process, name, described, value)

    return close


def closed(process: str, name: str, described: Kept, value: Any) -> Any:
    """What a process left on itself, as it is kept; None where it is as at first."""
    if value is described:
        raise DataError(f"{process} deleted {name}.", fix="Give it the value that it had at first.")
    if isinstance(described, Running):
        if not isinstance(value, RunningAggregate):
            raise DataError(
                f"{process} put {value!r} in the place of its aggregate {name!r}.",
                fix=f"Write self.{name}.add(event), or self.{name}.clear() to start anew.",
            )
        text = value.text()
        return None if text == RunningAggregate(described.aggregate).text() else text
    if isinstance(described, Value):
        if value == described.default:
            return None
        if value is None:
            raise DataError(
                f"{name} of {process} is None, which is kept like its default {described.default!r}.",
                fix="Let the default be None, or keep another value for nothing.",
            )
    if isinstance(described, List) and value is None:
        raise DataError(f"{name} of {process} is None, and no list.", fix=f"Write self.{name} = [] for an empty one.")
    if isinstance(described, Map):
        if not isinstance(value, Mapping):
            raise DataError(f"{name} of {process} is {value!r}, and no dictionary.", fix=f"Write self.{name} = {{}}.")
        value = [{"key": key, "value": each} for key, each in value.items()]
    if isinstance(described, Map | List) and not value:
        return None
    try:
        return checked_value(described.kind, value, f"{name} of {process}")
    except DescriptionError as error:
        raise DataError(error.what, fix=error.fix) from None

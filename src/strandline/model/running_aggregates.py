"""An aggregate that a process keeps of a key: added to one event at a time, and kept as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from strandline.model.aggregates import Aggregate, Count, Max, Mean, Min
from strandline.model.time import Instant
from strandline.model.users import ask, kept_text, output_of


class RunningAggregate:
    """An aggregate of the key at hand."""

    def __init__(self, aggregate: Any, accumulator: Any = None) -> None:
        self._aggregate = aggregate
        self._mine = isinstance(aggregate, Aggregate)
        self.accumulator: Any = self._start() if accumulator is None else accumulator

    @classmethod
    def of(cls, aggregate: Any, text: str | None) -> RunningAggregate:
        """An aggregate as it was kept; None is one to which nothing was added."""
        if text is None:
            return cls(aggregate)
        kept = json.loads(text)
        return cls(aggregate, kept if isinstance(aggregate, Aggregate) else [kept[0], _unsaid(kept[1])])

    def _start(self) -> Any:
        return ask(f"{type(self._aggregate).__name__}.start", self._aggregate.start) if self._mine else [0, None]

    def clear(self) -> None:
        """Start anew."""
        self.accumulator = self._start()

    def add(self, event: Mapping[str, Any]) -> None:
        """Take an event in; nulls are passed over, as in SQL."""
        aggregate = self._aggregate
        if self._mine:
            given = [event[column] for column in aggregate.columns]
            if None not in given:
                self.accumulator = ask(f"{type(aggregate).__name__}.add", aggregate.add, self.accumulator, *given)
            return
        value = 1 if isinstance(aggregate, Count) and aggregate.column is None else event[aggregate.column]
        if value is not None:
            count, total = self.accumulator
            self.accumulator = [count + 1, value if total is None else _joined(aggregate, total, value)]

    @property
    def result(self) -> Any:
        """What it comes to now; None, or 0 for a count, where nothing was added."""
        if self._mine:
            return output_of(self._aggregate, self.accumulator)
        count, total = self.accumulator
        if isinstance(self._aggregate, Count):
            return count
        return total / count if isinstance(self._aggregate, Mean) and count else total

    def text(self) -> str:
        """As it is kept."""
        if self._mine:
            return kept_text(self._aggregate, self.accumulator)
        count, total = self.accumulator
        return json.dumps([count, _said(total)])


def _said(value: Any) -> Any:
    """A value of a column as JSON has it: what JSON does not know is text, beside the name of its type."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"timestamp" if value.tzinfo else "timestamp_ntz": value.isoformat()}
    if isinstance(value, timedelta):
        return {"interval": value // timedelta(microseconds=1)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    return {"binary": value.hex()} if isinstance(value, bytes) else value


def _unsaid(said: Any) -> Any:
    """The value that was said so."""
    if not isinstance(said, dict):
        return said
    ((kind, text),) = said.items()
    return _READ[kind](text)


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "decimal": Decimal,
    "timestamp": lambda text: Instant.of(text).moment,
    "timestamp_ntz": datetime.fromisoformat,
    "interval": lambda micros: timedelta(microseconds=micros),
    "date": date.fromisoformat,
    "binary": bytes.fromhex,
}
_EXACT: Final = Context(prec=200)  # the default one rounds to 28 digits


def _joined(aggregate: Any, total: Any, value: Any) -> Any:
    if isinstance(aggregate, Min):
        return min(total, value)
    if isinstance(aggregate, Max):
        return max(total, value)
    return _EXACT.add(total, value) if isinstance(total, Decimal) else total + value

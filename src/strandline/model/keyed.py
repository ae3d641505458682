"""Rows grouped by key: windows over them, joins of two such streams, and all that remembers something of a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, get_args

from strandline.errors import DescriptionError, told
from strandline.model.aggregates import BUILT_IN, Aggregate, AnyAggregate, within_of
from strandline.model.expressions import require_text
from strandline.model.intervals import Interval
from strandline.model.nodes import Emit, How, Match, OnTime, Order, PaneTime, StageNode
from strandline.model.operators import describe_detect, describe_join, describe_over, describe_process
from strandline.model.options import require_boolean, require_name
from strandline.model.panes import Mode
from strandline.model.patterns import Pattern
from strandline.model.process import TTL, Process, TableProcess
from strandline.model.streams import Stage, Stream, without_a_window
from strandline.model.time import Span
from strandline.model.triggers import KINDS, AfterWatermark, Trigger
from strandline.model.types import Schema
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window


@dataclass(frozen=True, slots=True)
class Keyed:
    """A stream grouped by key."""

    stream: Stream
    keys: tuple[str, ...]

    def window(
        self,
        window: Window,
        *,
        trigger: Trigger | None = None,
        lateness: str | timedelta | Span = Span(0),
        mode: Mode = "accumulating",
        on_time: OnTime = "if_any",
        timestamp: PaneTime = "end",
        coalesce: bool = True,
        allow_loss: bool = False,
    ) -> Windowed:
        """Say where in event time, when in processing time, and how refinements relate."""
        if not isinstance(window, Tumbling | Hopping | Session | Global | SameWindow | CustomWindow):
            raise DescriptionError(
                f"{told(window)} is no window.",
                fix="Write sl.Tumbling('1m'), with brackets, or subclass sl.CustomWindow.",
            )
        if isinstance(window, SameWindow) and window.window is not None:
            raise DescriptionError(
                "A stage takes the windows that panes came with: SameWindow names none there.",
                fix=f"Write SameWindow(), or window={window.window!r} for windows of its own.",
            )
        if isinstance(window, CustomWindow) and not isinstance(window.longest, Span | None):
            name = type(window).__name__
            raise DescriptionError(
                f"`longest` of {name} is {told(window.longest)}, no span.",
                fix=f"Write longest = sl.Span.of('8h') in {name}, or leave it out.",
            )
        trigger = AfterWatermark() if trigger is None else trigger
        if not isinstance(trigger, KINDS):
            raise DescriptionError(
                f"trigger={told(trigger)} is no trigger.", fix="Write trigger=sl.AfterWatermark(), with brackets."
            )
        for option, value, known in (
            ("mode", mode, get_args(Mode)), ("on_time", on_time, get_args(OnTime)), ("timestamp", timestamp, get_args(PaneTime)),
        ):  # fmt: skip
            if value not in known:
                raise DescriptionError(
                    f"{option}={value!r} is not known.", fix=f"Give one of {', '.join(map(repr, known))}."
                )
        require_boolean("coalesce", coalesce)
        require_boolean("allow_loss", allow_loss)
        granted = Span.of(lateness)
        if granted < 0:
            raise DescriptionError(
                f"lateness={granted.text!r} is negative.", fix="Give '0s' for none, or such as '10m'."
            )
        return Windowed(
            keyed=self, window=window, trigger=trigger, lateness=granted, mode=mode, on_time=on_time,
            timestamp=timestamp, coalesce=coalesce, allow_loss=allow_loss,
        )  # fmt: skip

    def join(
        self,
        name: str,
        other: Keyed,
        *,
        within: Interval | SameWindow | None = None,
        match: Match = "all",
        how: How = "inner",
        suffix: str = "_right",
        salt: int | None = None,
    ) -> Stage:
        """Pair rows of two streams whose keys are equal and whose times lie as `within` says, seen from this side.

        `match` takes all rows of the other side that fit, or for each row of this side the first or last of them. Rows
        without a match, where `how` asks for them, come once the watermark says that none can come any more.

        `salt` is for keys with very many rows on this side (with how="right" on the other): they are spread over so many
        places, and those of the other side copied to each. The answer is the same; rows of a key come in another order.
        """
        require_name("stage", name)
        if not isinstance(other, Keyed):
            raise DescriptionError(
                f"A join takes another keyed stream, not {told(other)}.", fix="Write other.key_by('user')."
            )
        if other.stream.flow is not self.stream.flow:
            raise DescriptionError(
                f"The join {name!r} is between streams of two flows.", fix="Read both sources in one flow."
            )
        node = describe_join(
            (self.stream.node, self.keys), name, (other.stream.node, other.keys),
            within=within, match=match, how=how, suffix=suffix, salt=salt,
        )  # fmt: skip
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def over(
        self, name: str, *, emit: Emit = "arrival", include_current: bool = True, **features: AnyAggregate
    ) -> Stage:
        """Each event with features over the time before it, several horizons at once: n_1h=sl.Count(within="1h").

        A feature looks at the events of the key from `within` before the event up to it, both included. With
        emit="arrival" an event comes at once, from what is known, and is corrected (`op`) when older ones come; with
        "watermark" it comes when nothing earlier can come any more, once and in order.
        """
        require_name("stage", name)
        node = describe_over(self.stream.node, self.keys, name, features, emit=emit, include_current=include_current)
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def detect(self, name: str, pattern: Pattern, *, salt: None = None) -> Stage:
        """Find events of a key that follow each other as a pattern says, in event-time order; each match is a row.

        `sl.sequence` says what a match is, and which are told. There is no `salt`, and the error says why.
        """
        require_name("stage", name)
        node = describe_detect(self.stream.node, self.keys, name, pattern, salt=salt)
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def process(
        self,
        name: str,
        process: type[Process] | type[TableProcess],
        *,
        output: str | Schema,
        side: Mapping[str, str | Schema] | None = None,
        order: Order = "arrival",
        ttl: TTL | None = None,
        salt: None = None,
    ) -> Stage:
        """Hand the events of each key to a class of your own, with state, timers and side outputs.

        In order of arrival, or, with order="event_time", by event time: then each waits until the watermark has passed it.
        There is no `salt`, and the error says why.
        """
        require_name("stage", name)
        node = describe_process(
            self.stream.node, self.keys, name, process,
            output=output, side={} if side is None else side, order=order, ttl=ttl, salt=salt,
        )  # fmt: skip
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def aggregate(self, *_given: Any, **_aggregates: Any) -> NoReturn:
        """Nothing, but to say what is missing: an aggregate is of a window."""
        raise without_a_window()

    def dedupe(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is too much: a dedupe has a key of its own."""
        raise _before_key_by("dedupe", "on=")

    def join_table(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is too much: rows are joined by the table's key."""
        raise _before_key_by("join_table", "on=")

    def lookup(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is too much: a lookup has a key of its own."""
        raise _before_key_by("lookup", "on=")

    def sink(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is too much: a sink takes rows."""
        raise _before_key_by("sink", "key=")


def _before_key_by(verb: str, option: str) -> DescriptionError:
    """That a verb takes rows as they are."""
    return DescriptionError(
        f".{verb}() takes rows without .key_by(): {option} says by which columns.",
        fix=f"Leave .key_by(...) out: stream.{verb}(...).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """A keyed stream with its windows: say what to compute."""

    keyed: Keyed
    window: Window
    trigger: Trigger
    lateness: Span
    mode: Mode
    on_time: OnTime
    timestamp: PaneTime
    coalesce: bool
    allow_loss: bool

    def aggregate(self, name: str = "", /, **aggregates: AnyAggregate) -> Stage:
        """Compute aggregates; the stage's name, which must be given, is the identity of its state."""
        if name == "":
            raise DescriptionError(
                "A stage without a name: it is the identity of its state.",
                fix="Give it first, as in .aggregate('per_user', n=sl.Count()).",
            )
        require_name("stage", name)
        if not aggregates:
            raise DescriptionError(f"The stage {name!r} computes nothing.", fix="Add one: n=sl.Count().")
        for column, aggregate in aggregates.items():
            if not isinstance(aggregate, (*BUILT_IN, Aggregate)):
                raise DescriptionError(
                    f"{column}={told(aggregate)} is no aggregate.", fix="Write sl.Sum('amount'), with brackets."
                )
            if within_of(aggregate) is not None:
                raise DescriptionError(
                    f"within= of {column!r} means nothing in a window.",
                    fix="Leave it out: the window says what counts; or use .key_by(...).over(...).",
                )
            if aggregate.where is not None:  # a user's own aggregate may say anything
                require_text(f"`where` of {type(aggregate).__name__}", aggregate.where)
        stream = self.keyed.stream
        node = StageNode(
            name=name, parent=stream.node, keys=self.keyed.keys, window=self.window, trigger=self.trigger,
            lateness=self.lateness, mode=self.mode, on_time=self.on_time, timestamp=self.timestamp,
            coalesce=self.coalesce, allow_loss=self.allow_loss, aggregates=tuple(aggregates.items()),
        )  # fmt: skip
        stream.flow.add(node)
        return Stage(stream.flow, node)

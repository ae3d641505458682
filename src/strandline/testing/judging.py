"""Judge a transcript: play it, and say in sentences where it shows something else than it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from strandline.errors import StrandlineError, TranscriptError, did_you_mean
from strandline.model.lineage import schema_of
from strandline.model.nodes import (
    Node,
    OperatorNode,
    Origin,
    SideNode,
    SourceNode,
    StageNode,
    Stateful,
    lineage,
    nearest,
)
from strandline.model.operators import keys_of
from strandline.model.panes import RETRACT
from strandline.model.salting import spreads
from strandline.model.streams import Stream
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.model.values import checked_value
from strandline.testing.play import play
from strandline.testing.results import Books, PlayedTick, Shown
from strandline.testing.shapes import known_names, placed, tick_place
from strandline.testing.steps import Crash, Step
from strandline.testing.transcripts import Expected, Transcript, typed

Given = Mapping[str, Any]


def judge(transcript: Transcript, *, runner: str = "oracle", crash: bool = False, **options: Any) -> list[str]:
    """What is wrong, as sentences; nothing when the transcript holds.

    `crash=True` crashes after every tick. A transcript that must fail is right when it fails.
    """
    if transcript.check_fails is not None:
        return _refused(transcript, transcript.check_fails)
    try:
        found = differences(transcript, runner=runner, crash=crash, **options)
    except StrandlineError as error:
        if not isinstance(transcript.must_fail, str):
            raise
        found = [str(error)]
    if not transcript.must_fail:
        return found
    wanted = transcript.must_fail if isinstance(transcript.must_fail, str) else ""
    return [] if any(wanted in each for each in found) else [f"It must fail {wanted!r}, and did not: {found}"]


def differences(transcript: Transcript, *, runner: str = "oracle", crash: bool = False, **options: Any) -> list[str]:
    """Where a play shows something else than the transcript says."""
    stream, ticks = transcript.stream(), transcript.ticks()
    steps: list[Step] = []
    places = []
    for tick in ticks:
        places.append(len(steps))
        steps += [tick.step, Crash()] if crash or tick.crash else [tick.step]
    played = play(stream, steps, runner=runner, **options)
    comparison = _Comparison(stream)
    found = []
    for number, (tick, place) in enumerate(zip(ticks, places, strict=True), 1):
        with placed(tick_place(number)):
            found += [f"{tick_place(number)}: {each}" for each in comparison.tick(tick, played.ticks[place])]
    unused = {node.name: Books() for node in lineage(stream.node) if isinstance(node, Origin)}
    return found + _books(transcript.document.get("books", {}), unused | played.books)


def _refused(transcript: Transcript, text: str) -> list[str]:
    try:
        transcript.stream().flow.check()
    except StrandlineError as error:
        return [] if text in str(error) else [f"check() refuses the flow, but does not say {text!r}: {error}"]
    return [f"check() must refuse the flow, saying {text!r}, and did not."]


def _books(expected: Mapping[str, Mapping[str, int]], kept: Mapping[str, Books]) -> list[str]:
    found = []
    for name, counts in known_names(expected, kept, "books").items():
        books = kept[name]
        known_names(counts, [each.name for each in fields(books)], f"books of {name!r}")
        said = {count: getattr(books, count) for count in counts}
        if said != counts:
            found.append(f"the books of {name!r} say {said}, not {dict(counts)}")
    return found


class _Comparison:
    """Knows, for a stream, the types of what is expected and which rows must keep their order."""

    def __init__(self, stream: Stream) -> None:
        self.node = stream.node
        path = [*lineage(stream.node)]
        self.panes = _schemas([stream.node])
        self.late = _schemas(SideNode(parent=node, side="late") for node in path if isinstance(node, Stateful))
        self.rejected = _schemas(SideNode(parent=node, side="rejected") for node in path if isinstance(node, Origin))
        self.replaced = _schemas(node for node in path if isinstance(node, StageNode))

    def tick(self, expected: Expected, shown: PlayedTick) -> list[str]:
        found = [
            *_differ("panes", expected.panes, self.panes, self._queues(shown.panes)),
            *_differ("late", expected.late, self.late, [[row] for row in shown.late]),
            *_differ("rejected", expected.rejected, self.rejected, [[row] for row in shown.rejected]),
        ]
        if expected.replaced is not None:
            found += _differ("replaced", expected.replaced, self.replaced, [[row] for row in shown.replaced])
        for name, time in known_names(expected.reaches, shown.watermarks, "reaches").items():
            reached = shown.watermarks[name]
            if reached != time:
                found.append(f"the watermark of {name!r} reaches {reached.text}, not {time.text}")
        return found

    def _queues(self, rows: list[Shown]) -> list[list[Shown]]:
        """Rows whose order counts stand in one queue: those of a window, or of a key; rows of a source; no others."""
        if isinstance(self.node, StageNode):
            return _windows(rows, self.node.keys)
        if isinstance(self.node, OperatorNode) and not spreads(self.node):
            keys = keys_of(self.node)[0]
            return [[*group] for group in _by_key(rows, keys).values()]
        return [rows] if isinstance(nearest(self.node), SourceNode) else [[row] for row in rows]


def _by_key(rows: list[Shown], keys: Sequence[str]) -> dict[str, list[Shown]]:
    found: dict[str, list[Shown]] = {}
    for row in rows:
        found.setdefault(repr([row[key] for key in keys]), []).append(row)
    return found


def _windows(rows: list[Shown], keys: Sequence[str]) -> list[list[Shown]]:
    """The panes of each window in order; what was withdrawn stands in the queue of the insert that follows it."""
    queues: dict[str, list[Shown]] = {}
    withdrawn: list[Shown] = []
    for at, row in enumerate(rows):
        following = rows[at + 1] if at + 1 < len(rows) else None
        withdrawn.append(row)
        if row["op"] == RETRACT and following is not None and all(following[key] == row[key] for key in keys):
            continue
        name = repr([row[column] for column in (*keys, "window_start", "window_end")])
        queues.setdefault(name, []).extend(withdrawn)
        withdrawn = []
    return list(queues.values())


def _differ(what: str, expected: Sequence[Given], schemas: list[Schema], queues: list[list[Shown]]) -> list[str]:
    wanted = [_wanted(row, schemas, what) for row in expected]
    count = sum(len(queue) for queue in queues)
    if len(wanted) == count and _fits(wanted, queues):
        return []
    columns = list(dict.fromkeys(name for row in wanted for name in row))
    shown = [_text({name: row.get(name) for name in columns or row}) for queue in queues for row in queue]
    return [f"{what}: expected {len(wanted)}, shown {count}", *(f"  expected {_text(row)}" for row in wanted), *(
        f"  shown    {row}" for row in shown
    )]  # fmt: skip


def _fits(wanted: Sequence[Given], queues: list[list[Shown]]) -> bool:
    """Whether the wanted rows can be taken, in order, each from the head of some queue."""
    if not wanted:
        return True
    for at, queue in enumerate(queues):
        if queue and _matches(wanted[0], queue[0]) and _fits(wanted[1:], [*queues[:at], queue[1:], *queues[at + 1 :]]):
            return True
    return False


def _matches(wanted: Any, shown: Any) -> bool:
    """Equal on what is given: a mapping by its own names, NaN to NaN; true is not 1."""
    if isinstance(wanted, Mapping):
        return isinstance(shown, Mapping) and all(n in shown and _matches(v, shown[n]) for n, v in wanted.items())
    if isinstance(wanted, list):
        return isinstance(shown, list) and len(wanted) == len(shown) and all(map(_matches, wanted, shown))
    if isinstance(wanted, float) and wanted != wanted:  # noqa: PLR0124 - NaN
        return isinstance(shown, float) and shown != shown  # noqa: PLR0124
    return isinstance(wanted, bool) == isinstance(shown, bool) and bool(wanted == shown)


def _wanted(row: Given, schemas: list[Schema], what: str) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise TranscriptError(f"{what}: {row!r} is no row.", fix="Write {user: ann, n: 3}.")
    return {name: _value(_type(name, schemas, what), value, f"{what}, {name!r}") for name, value in row.items()}


def _value(kind: Type, value: Any, place: str) -> Any:
    value = typed(kind, value)
    if kind.element is not None and isinstance(value, list):
        return [_value(kind.element, each, place) for each in value]
    if kind.name == "struct" and isinstance(value, Mapping):  # only the fields that matter are given
        schema = Schema(kind.fields)
        return {name: _value(_type(name, [schema], place), each, place) for name, each in value.items()}
    return checked_value(kind, value, place)


def _type(name: str, schemas: list[Schema], what: str) -> Type:
    for schema in schemas:
        if name in schema:
            return schema[name]
    known = [column for schema in schemas for column in schema]
    raise TranscriptError(f"{what}: there is no column {name!r}.", fix=did_you_mean(name, known))


def _schemas(nodes: Iterable[Node]) -> list[Schema]:
    return [schema for schema in map(schema_of, nodes) if schema is not None]


def _text(row: Given) -> str:
    return "{" + ", ".join(f"{name}: {_short(value)}" for name, value in row.items()) + "}"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return _text(value)
    return Instant.of(value).text if isinstance(value, datetime) and value.tzinfo is not None else repr(value)

"""Transcripts: a flow, what happens to it, and what it must show, as a YAML document. See docs/transcripts.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from strandline.errors import TranscriptError, did_you_mean
from strandline.model.flow import Flow
from strandline.model.nodes import ProcessNode, SourceNode
from strandline.model.streams import Stage, Stream
from strandline.model.tables import Table
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.sources.rows import Rows
from strandline.testing.constructors import PUBLIC, Constructors, construct
from strandline.testing.shapes import flow_place, placed, require_shape, tick_place
from strandline.testing.steps import Events, Tick

DAY: Final = "2026-01-01"
_SHORT: Final = re.compile(r"(\d{1,2}):(\d\d)(:\d\d(?:\.\d+)?)?")
_INSTANTS: Final = {"before all time": Instant.BEFORE_ALL_TIME, "end of time": Instant.END_OF_TIME}
_PLAIN_OPTIONS: Final = ("lateness", "mode", "on_time", "timestamp", "coalesce", "allow_loss")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain values only: 12:00:03 stays text (1.1 makes it 43203), and so do dates, `on` and `no`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - filled below, per class

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; of a key that stands twice, YAML's reader would silently keep the last."""
        said = super().construct_mapping(node, deep=deep)
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} stands twice", key.start_mark)
            seen.add(name)
        return said


for _tag, _pattern, _first in (
    ("bool", r"(?:true|false)$", "tf"),
    ("null", r"(?:null|~|)$", ["n", "~", ""]),
    ("int", r"[-+]?(?:0|[1-9]\d*)$", "+-0123456789"),
    ("float", r"[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf)$|\.nan$", "+-.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One tick of a transcript: the step, whether it crashes after it, and what it must show."""

    step: Tick
    crash: bool = False
    panes: Sequence[Mapping[str, Any]] = ()
    late: Sequence[Mapping[str, Any]] = ()
    rejected: Sequence[Mapping[str, Any]] = ()
    replaced: Sequence[Mapping[str, Any]] | None = None
    reaches: Mapping[str, Instant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A transcript that was read. `stream()` makes its flow anew; `ticks()` says what happens and must be shown."""

    name: str
    shows: str
    document: Mapping[str, Any]
    constructors: Constructors

    @property
    def must_fail(self) -> str | bool:
        """Whether its expectation is wrong on purpose; a text must stand in the report."""
        return self.document.get("must_fail", False)  # type: ignore[no-any-return]

    @property
    def check_fails(self) -> str | None:
        """The text with which check() must refuse the flow."""
        return self.document.get("check_fails")

    def stream(self) -> Stream:
        """The stream that the flow ends with; it begins at the first source."""
        sources = self._sources()
        return self._through(next(iter(sources.values())), self.document.get("flow", []), sources)

    def ticks(self) -> list[Expected]:
        """What happens, tick by tick, and what must be shown."""
        sources = {name: _source_node(stream) for name, stream in self._sources().items()}
        several = "sources" in self.document
        found = []
        for number, tick in enumerate(self.document.get("ticks", []), 1):
            with placed(tick_place(number)):
                found.append(_tick(tick, sources, several=several))
        return found

    def make(self, text: str) -> Any:
        """A description from its text."""
        return construct(text, self.constructors)

    def _sources(self) -> dict[str, Stream]:
        """The sources of a flow that is made anew, by name."""
        flow, said = Flow("transcript"), self.document.get("sources")
        if said is None:
            with placed("source"):
                name = self.document["source"].get("name", "events")
                return {name: self._source(flow, name, self.document["source"])}
        found = {}
        for name, source in said.items():
            with placed(f"source {name!r}"):
                found[name] = self._source(flow, name, source)
        return found

    def _source(self, flow: Flow, name: str, said: Mapping[str, Any]) -> Stream:
        time = said.get("time", "at")
        return flow.source(
            name,
            Rows(schema=said["schema"]),
            time=self.make(time) if "(" in time else time,
            watermark=self.make(said["watermark"]) if "watermark" in said else None,
        )

    def _through(self, stream: Stream, steps: Sequence[Mapping[str, Any]], sources: Mapping[str, Stream]) -> Stream:
        for number, step in enumerate(steps, 1):
            with placed(flow_place(number)):
                stream = self._then(stream, step, sources)
        return stream

    def _then(self, stream: Stream, step: Mapping[str, Any], sources: Mapping[str, Stream]) -> Stream:
        ((verb, said),) = step.items()
        if verb == "where":
            return stream.where(said)
        if verb == "select":
            return stream.select(*_several(said))
        if verb == "with_column":
            for name, expression in said.items():
                stream = stream.with_column(name, expression)
            return stream
        if verb == "side":
            return _side(stream, said)
        if verb == "dedupe":
            return stream.dedupe(said.get("name", "dedupe"), on=_several(said["on"]), within=said["within"])
        if verb in ("process", "lookup"):
            return (self._process if verb == "process" else self._lookup)(stream, said)
        if verb == "detect":
            keyed = stream.key_by(*_several(said.get("key_by", [])))
            return keyed.detect(said.get("name", "detect"), self.make(said["pattern"]))
        if verb == "table":
            return self._table(stream, said, said.get("name", "table")).changes
        if verb == "join_table":
            table = self._table(self._other(said["with"], sources), said, "table")
            options = {name: said[name] for name in ("on", "as_of", "how", "max_wait", "suffix") if name in said}
            return stream.join_table(said.get("name", "join_table"), table, **options)
        if verb == "over":
            options = {name: said[name] for name in ("emit", "include_current") if name in said}
            features = {name: self.make(text) for name, text in said["features"].items()}
            return stream.key_by(*_several(said.get("key_by", []))).over(
                said.get("name", "over"), **options, **features
            )
        return self._join(stream, said, sources) if verb == "join" else self._stage(stream, said)

    def _other(self, said: Mapping[str, Any], sources: Mapping[str, Stream]) -> Stream:
        """Another stream of the flow, from one of its sources."""
        if said["from"] not in sources:
            raise TranscriptError(f"There is no source {said['from']!r}.", fix=did_you_mean(said["from"], sources))
        return self._through(sources[said["from"]], said.get("flow", []), sources)

    def _table(self, changes: Stream, said: Mapping[str, Any], name: str) -> Table:
        options = {option: said[option] for option in ("order", "ttl", "broadcast") if option in said}
        return changes.flow.table(name, changes, key=_several(said["key"]), **options)

    def _process(self, stream: Stream, said: Mapping[str, Any]) -> Stream:
        options = {name: said[name] for name in ("side", "order") if name in said}
        if "ttl" in said:
            options["ttl"] = self.make(said["ttl"])
        process: Any = self._own("process", said["process"])
        keyed = stream.key_by(*_several(said.get("key_by", [])))
        return keyed.process(said.get("name", "process"), process, output=said["output"], **options)

    def _lookup(self, stream: Stream, said: Mapping[str, Any]) -> Stream:
        names = ("concurrency", "timeout", "retries", "ordered", "on_error")
        options = {name: said[name] for name in names if name in said}
        if "cache" in said:
            options["cache"] = self.make(said["cache"])
        lookup = self._own("lookup", said["lookup"])
        if isinstance(lookup, type):  # a class that is made anew for each play
            lookup = lookup()
        return stream.lookup(
            said.get("name", "lookup"), lookup, on=_several(said["on"]), output=said["output"], **options
        )

    def _own(self, what: str, name: str) -> Any:
        """What a user wrote, by the name that `extra` gives it."""
        if name not in self.constructors:
            raise TranscriptError(f"There is no {what} {name!r}.", fix=did_you_mean(name, self.constructors))
        return self.constructors[name]

    def _join(self, stream: Stream, said: Mapping[str, Any], sources: Mapping[str, Stream]) -> Stream:
        options = {name: said[name] for name in ("match", "how", "suffix", "salt") if name in said}
        other = self._other(said["with"], sources)
        keys = _several(said["key_by"])
        other_keys = _several(said["with"].get("key_by", keys))
        within = self.make(said["within"])
        return stream.key_by(*keys).join(said.get("name", "join"), other.key_by(*other_keys), within=within, **options)

    def _stage(self, stream: Stream, said: Mapping[str, Any]) -> Stream:
        options = {name: said[name] for name in _PLAIN_OPTIONS if name in said}
        if "trigger" in said:
            options["trigger"] = self.make(said["trigger"])
        aggregates = {name: self.make(text) for name, text in said["aggregates"].items()}
        windowed = stream.key_by(*_several(said.get("key_by", []))).window(self.make(said["window"]), **options)
        return windowed.aggregate(said.get("name", "stage"), **aggregates)


def read_transcript(text: str, *, extra: Constructors | None = None, place: str = "The transcript") -> Transcript:
    """Read a transcript; `extra` adds a user's own windows, aggregates and policies to the known constructors.

    >>> read_transcript("{name: a, shows: b, source: {schema: at timestamp}}").name
    'a'
    """
    try:
        document = yaml.load(text, Loader=_Loader)  # derives from SafeLoader
    except yaml.YAMLError as error:
        raise TranscriptError(f"{place} cannot be read as YAML: {error}", fix="See docs/transcripts.md.") from None
    require_shape(document, place)
    return Transcript(
        name=document["name"], shows=document["shows"], document=document, constructors={**PUBLIC, **(extra or {})}
    )


def load_transcript(path: str | Path, *, extra: Constructors | None = None) -> Transcript:
    """Read a transcript from a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (TypeError, OSError, UnicodeDecodeError) as error:
        raise TranscriptError(
            f"The transcript {path!r} cannot be read: {error}.", fix="Give the path of a YAML file in UTF-8."
        ) from None
    return read_transcript(text, extra=extra, place=str(path))


def typed(kind: Type, value: Any) -> Any:
    """A value with its short times written out, all the way down.

    >>> typed(Type.of("timestamp"), "12:03")
    '2026-01-01T12:03:00Z'
    """
    if kind.element is not None and isinstance(value, list):
        return [typed(kind.element, each) for each in value]
    if kind.name == "struct" and isinstance(value, Mapping):
        fields = dict(kind.fields)
        return {name: typed(fields[name], each) if name in fields else each for name, each in value.items()}
    return _long(value) if kind.name == "timestamp" else value


def _long(value: Any) -> Any:
    match = _SHORT.fullmatch(value.strip()) if isinstance(value, str) else None
    return f"{DAY}T{match[1]:0>2}:{match[2]}{match[3] or ':00'}Z" if match else value


def _instant(value: Any) -> Instant:
    named = _INSTANTS.get(value) if isinstance(value, str) else None
    return Instant.of(_long(value)) if named is None else named


def _several(said: str | list[str]) -> list[str]:
    return [said] if isinstance(said, str) else said


def _side(stream: Stream, side: str) -> Stream:
    if side == "rejected":
        return stream.rejected
    own = dict(stream.node.sides) if isinstance(stream.node, ProcessNode) else {}
    if side != "late" and side not in own:
        raise TranscriptError(f"There is no side {side!r}.", fix=did_you_mean(side, ("late", "rejected", *own)))
    if not isinstance(stream, Stage):
        raise TranscriptError("Only a stage has late rows.", fix="Write `- side: late` right behind a stage.")
    return stream.late if side == "late" else stream.side(side)


def _source_node(stream: Stream) -> SourceNode:
    assert isinstance(stream.node, SourceNode)
    return stream.node


def _tick(said: Mapping[str, Any], sources: Mapping[str, SourceNode], *, several: bool) -> Expected:
    first = next(iter(sources))
    reaches = said.get("reaches", {})
    reaches = reaches if isinstance(reaches, Mapping) else {first: reaches}
    events = said.get("events", {} if several else [])
    by_source = events if several else {first: events}
    policy = said.get("policy", False)
    return Expected(
        step=Tick(
            events=[part for name, given in by_source.items() for part in _events(given, sources[name], policy=policy)],
            watermark=_watermark(said["watermark"]) if "watermark" in said else None,
            processing_time=_instant(said["processing_time"]) if "processing_time" in said else None,
        ),
        crash=said.get("crash", False),
        panes=said.get("panes", ()),
        late=said.get("late", ()),
        rejected=said.get("rejected", ()),
        replaced=said.get("replaced"),
        reaches={name: _instant(time) for name, time in reaches.items()},
    )


def _watermark(said: Any) -> Instant | dict[str, Instant]:
    return {name: _instant(at) for name, at in said.items()} if isinstance(said, Mapping) else _instant(said)


def _events(given: Any, source: SourceNode, *, policy: bool) -> list[Events]:
    """Rows of partition 0, or a mapping of partition to rows."""
    partitions = given if isinstance(given, Mapping) else {0: given}
    schema = source.source.schema
    return [
        Events([_row(row, schema) for row in rows], partition=partition, policy=policy, source=source.name)
        for partition, rows in partitions.items()
    ]


def _row(row: Any, schema: Schema) -> Mapping[str, Any]:
    """A row as a mapping, or as a list of values in the order of the schema."""
    if isinstance(row, list):
        if len(row) > len(schema):
            raise TranscriptError(f"The row {row!r} has more values than columns.", fix=f"Columns: {schema.text}.")
        row = dict(zip(schema, row, strict=False))
    if not isinstance(row, Mapping):
        raise TranscriptError(f"{row!r} is no row.", fix="Write {user: ann, at: 12:00:03}, or [ann, 12:00:03].")
    return {name: typed(schema[name], value) if name in schema else value for name, value in row.items()}

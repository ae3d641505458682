"""Transcripts: a flow, what happens to it, and what it must show, as a YAML document. See docs/transcripts.md."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from strandline.errors import DescriptionError, TranscriptError, did_you_mean
from strandline.model.flow import Flow, SourceNode, Stage, Stream, lineage
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.sources.rows import Rows
from strandline.testing.constructors import PUBLIC, Constructors, construct
from strandline.testing.steps import Events, Tick

DAY: Final = "2026-01-01"
_SHORT: Final = re.compile(r"(\d{1,2}):(\d\d)(:\d\d(?:\.\d+)?)?")
_INSTANTS: Final = {"before all time": Instant.BEFORE_ALL_TIME, "end of time": Instant.END_OF_TIME}
_DOCUMENT: Final = ("name", "shows", "source", "flow", "ticks", "books", "must_fail", "check_fails")
_SOURCE: Final = ("name", "schema", "time", "watermark")
_STAGE: Final = (
    "name", "key_by", "window", "trigger", "lateness", "mode", "on_time", "timestamp", "coalesce", "allow_loss",
    "aggregates",
)  # fmt: skip
_TICK: Final = (
    "events", "policy", "watermark", "processing_time", "crash", "panes", "late", "rejected", "replaced", "reaches",
)  # fmt: skip


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
        """The stream that the flow ends with."""
        given = known_names(self.document["source"], _SOURCE, "source")
        options = {"watermark": self.make(given["watermark"])} if "watermark" in given else {}
        time = given.get("time", "at")
        stream: Stream = Flow("transcript").source(
            given.get("name", "events"),
            Rows(schema=_need(given, "schema", "source")),
            time=self.make(time) if "(" in time else time,
            **options,
        )
        for work in self.document.get("flow", []):
            stream = self._then(stream, work)
        return stream

    def ticks(self) -> list[Expected]:
        """What happens, tick by tick, and what must be shown."""
        source = [*lineage(self.stream().node)][-1]
        assert isinstance(source, SourceNode)
        return [_tick(tick, source, f"tick {n}") for n, tick in enumerate(self.document.get("ticks", []), 1)]

    def make(self, text: Any) -> Any:
        """A description from its text."""
        if not isinstance(text, str):
            raise TranscriptError(
                f"{text!r} is no text of a description.", fix='Write it as in Python: Tumbling("1m").'
            )
        return construct(text, self.constructors)

    def _then(self, stream: Stream, work: Mapping[str, Any]) -> Stream:
        if not isinstance(work, Mapping) or len(work) != 1:
            raise TranscriptError(f"{work!r} is no step of a flow.", fix="Write one verb: `- where: amount > 3`.")
        ((verb, said),) = work.items()
        if verb == "where":
            return stream.where(said)
        if verb == "select":
            return stream.select(*said)
        if verb == "with_column":
            for name, expression in said.items():
                stream = stream.with_column(name, expression)
            return stream
        if verb == "stage":
            return self._stage(stream, known_names(said, _STAGE, "stage"))
        if verb == "side" and said == "late" and isinstance(stream, Stage):
            return stream.late
        if verb == "side" and said == "rejected":
            return stream.rejected
        known = ("where", "select", "with_column", "stage", "side")
        raise TranscriptError(f"A flow cannot `{verb}: {said}` here.", fix=did_you_mean(str(verb), known))

    def _stage(self, stream: Stream, said: Mapping[str, Any]) -> Stream:
        plain = ("lateness", "mode", "on_time", "timestamp", "coalesce", "allow_loss")
        options = {name: said[name] for name in plain if name in said}
        if "trigger" in said:
            options["trigger"] = self.make(said["trigger"])
        window = self.make(_need(said, "window", "stage"))
        aggregates = {name: self.make(text) for name, text in _need(said, "aggregates", "stage").items()}
        keyed = stream.key_by(*said.get("key_by", ()))
        return keyed.window(window, **options).aggregate(said.get("name", "stage"), **aggregates)


def read_transcript(text: str, *, extra: Constructors | None = None, place: str = "The transcript") -> Transcript:
    """Read a transcript; `extra` adds a user's own windows, aggregates and policies to the known constructors.

    >>> read_transcript("{name: a, shows: b, source: {schema: at timestamp}}").name
    'a'
    """
    try:
        document = yaml.load(text, Loader=_Loader)  # derives from SafeLoader
    except yaml.YAMLError as error:
        raise TranscriptError(f"{place} cannot be read as YAML: {error}", fix="See docs/transcripts.md.") from None
    known_names(document, _DOCUMENT, place)
    for name in ("name", "shows", "source"):
        _need(document, name, place)
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


def _instant(value: Any, place: str) -> Instant:
    if value in _INSTANTS:
        return _INSTANTS[value]
    try:
        return Instant.of(_long(value))
    except DescriptionError as error:
        raise TranscriptError(f"{place}: {error.what}", fix=error.fix) from None


def _tick(said: Mapping[str, Any], source: SourceNode, place: str) -> Expected:
    known_names(said, _TICK, place)
    times = {
        name: None if said.get(name) is None else _instant(said[name], place)
        for name in ("watermark", "processing_time")
    }
    reaches = said.get("reaches", {})
    reaches = reaches if isinstance(reaches, Mapping) else {source.name: reaches}
    return Expected(
        step=Tick(events=_events(said, source.source.schema, place), **times),
        crash=said.get("crash", False),
        panes=said.get("panes", ()),
        late=said.get("late", ()),
        rejected=said.get("rejected", ()),
        replaced=said.get("replaced"),
        reaches={name: _instant(time, place) for name, time in reaches.items()},
    )


def _events(said: Mapping[str, Any], schema: Schema, place: str) -> list[Events]:
    """Rows of partition 0, or a mapping of partition to rows."""
    given = said.get("events", [])
    partitions = given if isinstance(given, Mapping) else {0: given}
    policy = said.get("policy", False)
    return [
        Events([_row(row, schema, place) for row in rows], partition=partition, policy=policy)
        for partition, rows in partitions.items()
    ]


def _row(row: Any, schema: Schema, place: str) -> Mapping[str, Any]:
    """A row as a mapping, or as a list of values in the order of the schema."""
    if isinstance(row, list):
        if len(row) > len(schema):
            raise TranscriptError(
                f"{place}: the row {row!r} has more values than columns.", fix=f"Columns: {schema.text}."
            )
        row = dict(zip(schema, row, strict=False))
    if not isinstance(row, Mapping):
        raise TranscriptError(
            f"{place}: {row!r} is no row.", fix="Write {user: ann, at: 12:00:03}, or [ann, 12:00:03]."
        )
    return {name: typed(schema[name], value) if name in schema else value for name, value in row.items()}


def known_names(said: Any, known: Collection[str], place: str) -> Mapping[str, Any]:
    """A mapping in which every name is one of the known.

    >>> known_names({"n": 1}, ("n", "total"), "here")
    {'n': 1}
    """
    if not isinstance(said, Mapping):
        raise TranscriptError(f"{place} is {said!r}, no mapping.", fix=f"It may have: {', '.join(known)}.")
    for name in said:
        if name not in known:
            raise TranscriptError(f"{place} has {name!r}, which is not known.", fix=did_you_mean(str(name), known))
    return said


def _need(said: Mapping[str, Any], name: str, place: str) -> Any:
    if name not in said:
        raise TranscriptError(f"{place} has no {name!r}.", fix=f"Add `{name}:`; see docs/transcripts.md.")
    return said[name]

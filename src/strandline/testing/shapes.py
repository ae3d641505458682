"""The shape of a transcript: which names each of its parts may have, and what may stand behind them.

Judged here is what is taken apart on the way; what a description refuses by itself (a schema, a span, a mode) is left
to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from strandline.errors import StrandlineError, TranscriptError, did_you_mean


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand behind a name, and how to write it."""

    noun: str
    fits: Callable[[Any], bool]
    fix: str


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_named_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, [*value, *value.values()]))


def _is_rows_of_partitions(value: object) -> bool:
    parts = list(value.values()) if isinstance(value, Mapping) else [value]
    return all(isinstance(part, list) for part in parts)


TEXT: Final = Kind("text", _is_text, 'Write a text; one that YAML reads as something else needs quotes: "3".')
DESCRIPTION: Final = Kind("text of a description", _is_text, 'Write it as in Python: Tumbling("1m").')
BOOLEAN: Final = Kind("boolean", lambda value: isinstance(value, bool), "Write true, or leave it out.")
TEXT_OR_BOOLEAN: Final = Kind(
    "text", lambda value: isinstance(value, str | bool), "Write the text that must be said, or true."
)
LIST: Final = Kind("list", lambda value: isinstance(value, list), "Write each item behind a dash; or leave it out.")
ONE_OR_MORE: Final = Kind(
    "list of texts", lambda value: _is_text(value) or _is_texts(value), "Write one, or several as [user, country]."
)
NAMED_TEXTS: Final = Kind("mapping from names to texts", _is_named_texts, "Write `name: text`, such as `n: Count()`.")
ROWS: Final = Kind("list of rows", lambda value: isinstance(value, list), "Write [{user: ann, n: 3}]; or leave it out.")
EVENTS: Final = Kind(
    "list of rows", _is_rows_of_partitions, "Write [[ann, 12:00:03]], or {0: [...], 1: [...]}; or leave it out."
)

LATER: Final = None  # judged by whoever takes it
Shape: TypeAlias = Mapping[str, Kind | None]

DOCUMENT: Final[Shape] = {
    "name": TEXT, "shows": TEXT, "source": LATER, "sources": LATER, "flow": LIST, "ticks": LIST, "books": LATER,
    "must_fail": TEXT_OR_BOOLEAN, "check_fails": TEXT,
}  # fmt: skip
SOURCE: Final[Shape] = {"name": LATER, "schema": LATER, "time": TEXT, "watermark": DESCRIPTION}
VERBS: Final[Shape] = {
    "where": TEXT, "select": ONE_OR_MORE, "with_column": NAMED_TEXTS, "stage": LATER, "side": TEXT,
    "dedupe": LATER, "join": LATER, "process": LATER, "over": LATER, "table": LATER, "join_table": LATER, "detect": LATER,
    "lookup": LATER,
}  # fmt: skip
OTHER: Final[Shape] = {"from": TEXT, "flow": LIST, "key_by": ONE_OR_MORE}
STAGES: Final[Mapping[str, tuple[Shape, tuple[str, ...]]]] = {
    "dedupe": ({"name": LATER, "on": ONE_OR_MORE, "within": LATER}, ("on", "within")),
    "join": (
        {
            "name": LATER, "key_by": ONE_OR_MORE, "with": LATER, "within": DESCRIPTION, "match": LATER, "how": LATER,
            "suffix": LATER, "salt": LATER,
        },
        ("key_by", "with", "within"),
    ),
    "lookup": (
        {
            "name": LATER, "lookup": TEXT, "on": ONE_OR_MORE, "output": TEXT, "concurrency": LATER, "timeout": LATER,
            "retries": LATER, "cache": DESCRIPTION, "ordered": BOOLEAN, "on_error": LATER,
        },
        ("lookup", "on", "output"),
    ),
    "detect": ({"name": LATER, "key_by": ONE_OR_MORE, "pattern": DESCRIPTION}, ("pattern",)),
    "table": ({"name": LATER, "key": ONE_OR_MORE, "order": LATER, "ttl": LATER}, ("key",)),
    "join_table": (
        {
            "name": LATER, "with": LATER, "key": ONE_OR_MORE, "order": LATER, "ttl": LATER, "on": ONE_OR_MORE, "as_of": BOOLEAN,
            "how": LATER, "max_wait": LATER, "suffix": LATER, "broadcast": LATER,
        },
        ("with", "key"),
    ),
    "over": (
        {"name": LATER, "key_by": ONE_OR_MORE, "features": NAMED_TEXTS, "emit": LATER, "include_current": BOOLEAN},
        ("features",),
    ),
    "process": (
        {
            "name": LATER, "key_by": ONE_OR_MORE, "process": TEXT, "output": TEXT, "side": NAMED_TEXTS, "order": LATER,
            "ttl": DESCRIPTION,
        },
        ("process", "output"),
    ),
}  # fmt: skip
"""The names that the description of a stage other than windows may have, and those that it must have."""
STAGE: Final[Shape] = {
    "name": LATER, "key_by": ONE_OR_MORE, "window": DESCRIPTION, "trigger": DESCRIPTION, "lateness": LATER,
    "mode": LATER, "on_time": LATER, "timestamp": LATER, "coalesce": LATER, "allow_loss": LATER,
    "aggregates": NAMED_TEXTS,
}  # fmt: skip
TICK: Final[Shape] = {
    "events": LATER, "policy": BOOLEAN, "watermark": LATER, "processing_time": LATER, "crash": BOOLEAN,
    "panes": ROWS, "late": ROWS, "rejected": ROWS, "replaced": ROWS, "reaches": LATER,
}  # fmt: skip


def require_shape(document: Any, place: str) -> None:
    """Refuse a document in which a name is not known or missing, or something of another kind stands behind it."""
    needed = ("name", "shows", *(() if isinstance(document, Mapping) and "sources" in document else ("source",)))
    _require(document, DOCUMENT, place, needed=needed)
    if "source" in document and "sources" in document:
        raise TranscriptError(f"{place} has a source and sources.", fix="Write one of them.")
    for name, source in _sources(document):
        _require(source, SOURCE, name, needed=("schema",))
    _require_steps(document.get("flow", []))
    for number, tick in enumerate(document.get("ticks", []), 1):
        _require(tick, TICK, tick_place(number))
        for rows in _events_by_source(document, tick):
            if not EVENTS.fits(rows):
                raise TranscriptError(
                    f"{tick_place(number)}: events is {_shown(rows)}, no {EVENTS.noun}.", fix=EVENTS.fix
                )


def _sources(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "source" in document:
        yield "source", document["source"]
        return
    said = document["sources"]
    if not isinstance(said, Mapping) or not said:
        raise TranscriptError(
            f"sources is {_shown(said)}, no mapping from names to sources.",
            fix="Write `sources: {clicks: {schema: ...}, orders: {schema: ...}}`.",
        )
    yield from ((f"source {name!r}", source) for name, source in said.items())


def _events_by_source(document: Mapping[str, Any], tick: Mapping[str, Any]) -> Iterator[Any]:
    """The rows, or rows of partitions, that a tick gives to each source."""
    if "events" not in tick:
        return
    if "source" in document:
        yield tick["events"]
    else:
        yield from known_names(tick["events"], document["sources"], "events").values()


def _require_steps(steps: list[Any]) -> None:
    for number, step in enumerate(steps, 1):
        _require_step(step, flow_place(number))


def flow_place(number: int) -> str:
    """What an error calls a step of the flow."""
    return f"step {number} of the flow"


def tick_place(number: int) -> str:
    """What an error calls a tick."""
    return f"tick {number}"


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Name the place in the transcript of whatever is refused inside.

    >>> with placed("tick 3"):
    ...     raise StrandlineError("The span '5' cannot be read.", fix="Write '5s'.")
    Traceback (most recent call last):
    strandline.errors.TranscriptError: tick 3: The span '5' cannot be read.
      fix: Write '5s'.
    """
    try:
        yield
    except StrandlineError as error:
        raise TranscriptError(f"{place}: {error.what}", fix=error.fix) from None


def known_names(said: Any, known: Collection[str], place: str) -> Mapping[str, Any]:
    """A mapping in which every name is one of the known.

    >>> known_names({"n": 1}, ("n", "total"), "here")
    {'n': 1}
    """
    if not isinstance(said, Mapping):
        raise TranscriptError(f"{place} is {_shown(said)}, no mapping.", fix=f"It may have: {', '.join(known)}.")
    for name in said:
        if name not in known:
            raise TranscriptError(f"{place} has {name!r}, which is not known.", fix=did_you_mean(str(name), known))
    return said


def _require_step(step: Any, place: str) -> None:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise TranscriptError(f"{place}: {step!r} is no step of a flow.", fix="Write one verb: `- where: amount > 3`.")
    _require(step, VERBS, place)
    if "stage" in step:
        _require(step["stage"], STAGE, f"{place}, stage", needed=("window", "aggregates"))
    for verb, (shape, needed) in STAGES.items():
        if verb in step:
            _require(step[verb], shape, f"{place}, {verb}", needed=needed)
    for verb in ("join", "join_table"):
        if verb not in step:
            continue
        other = step[verb]["with"]
        _require(other, OTHER, f"{place}, with", needed=("from",))
        _require_steps(other.get("flow", []))


def _require(said: Any, shape: Shape, place: str, *, needed: Collection[str] = ()) -> None:
    for name, value in known_names(said, shape, place).items():
        kind = shape[name]
        if kind is not None and not kind.fits(value):
            raise TranscriptError(f"{place}: {name} is {_shown(value)}, no {kind.noun}.", fix=kind.fix)
    for name in needed:
        if name not in said:
            raise TranscriptError(f"{place} has no {name!r}.", fix=f"Add `{name}:`; see docs/transcripts.md.")


def _shown(value: Any) -> str:
    return "empty" if value is None else repr(value)

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
    "name": TEXT, "shows": TEXT, "source": LATER, "flow": LIST, "ticks": LIST, "books": LATER,
    "must_fail": TEXT_OR_BOOLEAN, "check_fails": TEXT,
}  # fmt: skip
SOURCE: Final[Shape] = {"name": LATER, "schema": LATER, "time": TEXT, "watermark": DESCRIPTION}
VERBS: Final[Shape] = {
    "where": TEXT, "select": ONE_OR_MORE, "with_column": NAMED_TEXTS, "stage": LATER, "side": TEXT,
}  # fmt: skip
STAGE: Final[Shape] = {
    "name": LATER, "key_by": ONE_OR_MORE, "window": DESCRIPTION, "trigger": DESCRIPTION, "lateness": LATER,
    "mode": LATER, "on_time": LATER, "timestamp": LATER, "coalesce": LATER, "allow_loss": LATER,
    "aggregates": NAMED_TEXTS,
}  # fmt: skip
TICK: Final[Shape] = {
    "events": EVENTS, "policy": BOOLEAN, "watermark": LATER, "processing_time": LATER, "crash": BOOLEAN,
    "panes": ROWS, "late": ROWS, "rejected": ROWS, "replaced": ROWS, "reaches": LATER,
}  # fmt: skip


def require_shape(document: Any, place: str) -> None:
    """Refuse a document in which a name is not known or missing, or something of another kind stands behind it."""
    _require(document, DOCUMENT, place, needed=("name", "shows", "source"))
    _require(document["source"], SOURCE, "source", needed=("schema",))
    for number, step in enumerate(document.get("flow", []), 1):
        _require_step(step, flow_place(number))
    for number, tick in enumerate(document.get("ticks", []), 1):
        _require(tick, TICK, tick_place(number))


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

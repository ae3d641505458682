"""Code that users write: ask it, and hold its answers to what they must be.

Both runners ask through here, so that a mistake in a user's window, aggregate or policy is the same error in both, and
says whose it is.
"""

from __future__ import annotations

import json
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from strandline.errors import DataError, DescriptionError, raised, told
from strandline.model.aggregates import Aggregate
from strandline.model.lookups import Asked, Failed, Key, called, written_in
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.model.values import checked_row, checked_value
from strandline.model.windows import CustomWindow

Answer = TypeVar("Answer")


def ask(who: str, method: Callable[..., Answer], *given: Any) -> Answer:
    """What a user's method answers; whatever it raises becomes a DataError that names it.

    >>> ask("Product.add", lambda accumulator, x: accumulator * x, 2, 3)
    6
    """
    try:
        return method(*given)
    except Exception as error:
        raise DataError(
            raised(who, method, error),
            fix=f"Mend {who}; it was given {', '.join(map(reprlib.repr, given)) or 'nothing'}.",
        ) from error


def kept_text(aggregate: Aggregate, accumulator: Any) -> str:
    """An accumulator as the JSON text that is kept of it.

    Law: json.loads(kept_text(aggregate, a)) is a again; what JSON would change on the way (a tuple becomes a list, a key that is
    a number becomes text) is refused, or the answer would depend on how often state was written.
    """
    try:
        text = json.dumps(accumulator, sort_keys=True, separators=(",", ":"))
        # Equal is soon known; only NaN, which is not equal to itself, and what is refused need the long way.
        why = None if json.loads(text) == accumulator else _changed(accumulator)
    except TypeError as error:
        text, why = "", _changed(accumulator) or str(error)
    except (ValueError, RecursionError) as error:
        text, why = "", str(error)
    if why is not None:
        raise DataError(
            f"The accumulator of {type(aggregate).__name__} cannot be said in JSON: {why}.",
            fix="Keep numbers, text, booleans, None, lists and dicts with text keys: [1, 2] for (1, 2), {'1': 2} for {1: 2}.",
        )
    return text


def _changed(value: Any) -> str | None:
    """What in a value JSON would change or cannot say, if anything."""
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str)]
        return f"the key {wrong[0]!r} is no text" if wrong else next(filter(None, map(_changed, value.values())), None)
    if isinstance(value, list):
        return next(filter(None, map(_changed, value)), None)
    if value is None or isinstance(value, bool | int | float | str):
        return None
    kind = type(value).__name__
    return f"{reprlib.repr(value)} is a tuple, no list" if kind == "tuple" else f"{reprlib.repr(value)} is a {kind}"


def output_of(aggregate: Aggregate, accumulator: Any) -> Any:
    """What a user's `output` shows, as the one Python type that stands for its `result`."""
    who = f"{type(aggregate).__name__}.output"
    kind = Type.of(aggregate.result)
    answer = ask(who, aggregate.output, accumulator)
    try:
        return checked_value(kind, answer, f"{who}, whose result is {kind.text}")
    except DescriptionError as error:
        raise DataError(error.what, fix=f"{error.fix.rstrip('.')}; or declare another `result`.") from None


def columns_said(lookup: Asked, output: Schema, answer: Any) -> dict[str, Any]:
    """What a lookup answered, as the columns that it adds: all of them are null where it had no answer.

    >>> columns_said(len, Schema.of("length int"), 3), columns_said(len, Schema.of("length int"), None)
    ({'length': 3}, {'length': None})
    """
    who = called(lookup)
    if answer is None:
        return dict.fromkeys(output)
    if not isinstance(answer, Mapping):
        if len(output) != 1:
            raise DataError(
                f"{who} answered {told(answer)}, which is no mapping of {', '.join(output)}.",
                fix="Return a mapping of the output's columns, or None.",
            )
        answer = dict.fromkeys(output, answer)
    try:
        return checked_row(output, answer, f"The answer of {who}")
    except DescriptionError as error:
        raise DataError(error.what, fix=error.fix) from None


def wrong_answer(lookup: Asked, error: DataError) -> Failed:
    """What becomes of an answer that is none."""
    return Failed(error.what, f"{called(lookup)}{written_in(lookup)} is at fault. {error.what}")


def no_answer(stage: str, on: tuple[str, ...], key: Key, failed: Failed) -> DataError:
    """What stops a flow whose lookup must not fail."""
    asked = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in zip(on, key, strict=True))
    return DataError(
        f"The lookup of stage {stage!r} has no answer for {asked}: {failed.what}",
        fix="Mend it, or who is asked, and start again: the tick is made again. on_error='reject' puts such rows aside.",
    )


def windows_said(window: CustomWindow, time: Instant, row: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The windows that a user's `assign` gives a row, each once, by start. A generator will do as well as a list."""
    who = f"{type(window).__name__}.assign"
    answer: object = ask(who, window.assign, time, row)
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes | Mapping):
        raise _no_windows(who, answer)
    windows: list[Any] = ask(who, list, answer)  # a generator raises here, and not when it was made
    found = sorted({_window(who, each) for each in windows})
    if window.merging and len(found) > 1:
        raise DataError(
            f"{who} gave a row {len(found)} windows, and windows of its class merge: the row would be in one of them twice.",
            fix="Give each row one window, or leave `merging` False.",
        )
    return found


def _window(who: str, said: Any) -> tuple[int, int]:
    if not isinstance(said, tuple | list) or len(said) != 2:
        raise _no_windows(who, said)
    try:
        start, end = map(operator.index, said)
    except TypeError:
        raise _no_windows(who, said) from None
    if end <= start:
        raise DataError(
            f"{who} gave a window that ends at {end}, not after its start {start}.",
            fix="Let every window end after it starts.",
        )
    if start < Instant.BEFORE_ALL_TIME or end > Instant.END_OF_TIME:
        raise DataError(
            f"{who} gave a window from {start} to {end}, which reaches out of all time.",
            fix="Stay within the years 1 to 9999, in microseconds since 1970.",
        )
    return start, end


def _no_windows(who: str, said: object) -> DataError:
    return DataError(
        f"{who} gave {reprlib.repr(said)}, where a list of windows (start, end) in whole microseconds is needed.",
        fix="Return [(start, end)], even for one window, and [] for none; Instant.of(moment) makes a datetime an instant.",
    )

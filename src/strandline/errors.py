"""Every error that Strandline raises on purpose.

StrandlineError            what went wrong, and what to do about it
├── DescriptionError       a window, trigger, aggregate or stream that makes no sense by itself
├── CheckFailed            a flow whose parts do not fit together: all its problems at once
├── ExpressionError        a text expression that cannot be read, or not without Spark
├── DataError              a value that a computation cannot take, such as a sum that overflows
├── StateError             state that is missing, or bytes that are not the state they claim to be
│   ├── MissingFile        a file of the state that is not there
│   └── StorageError       a place that cannot keep state: full, forbidden, or without conditional create
├── OwnershipError         another run owns this flow
├── SinkError              a sink that cannot be used, or whose marker says something else than the flow does
├── RunError               a run that cannot start or go on
└── TranscriptError        a transcript or a step of play that cannot be understood
"""

from __future__ import annotations

import difflib
import inspect
import reprlib
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

LONGEST_TOLD: Final = 120
"""How long a value may be that an error shows as it is."""


class StrandlineError(Exception):
    """Say what is wrong and how to mend it.

    >>> print(StrandlineError("The gap is zero.", fix="Give a positive span, such as gap='10s'."))
    The gap is zero.
      fix: Give a positive span, such as gap='10s'.
    """

    def __init__(self, what: str, *, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  fix: {self.fix}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.fix)


def _rebuild(kind: type[StrandlineError], what: str, fix: str) -> StrandlineError:
    return kind(what, fix=fix)


class DescriptionError(StrandlineError):
    """A description that cannot mean anything."""


class ExpressionError(StrandlineError):
    """A text expression that cannot be read, or cannot be run without Spark."""


class DataError(StrandlineError):
    """A value that the computation cannot take."""


class StateError(StrandlineError):
    """State that is missing, or whose bytes cannot be trusted."""


class MissingFile(StateError):
    """A file of the state that is not there."""


class StorageError(StateError):
    """A place that cannot keep state: a full disk, a missing permission, a server without conditional create."""


class OwnershipError(StrandlineError):
    """Another run owns this flow: it committed a tick that this run was about to commit."""


class SinkError(StrandlineError):
    """A sink that cannot be used, or whose marker says something else than the flow does."""


class RunError(StrandlineError):
    """A run that cannot start, or cannot go on."""


class TranscriptError(StrandlineError):
    """A transcript, or a step given to play, that cannot be understood."""


class CheckFailed(StrandlineError):
    """All that is wrong with a flow, at once."""

    def __init__(self, problems: Sequence[StrandlineError]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{i}. {p.what}\n     fix: {p.fix}" for i, p in enumerate(self.problems, 1)]
        super().__init__(
            f"The flow has {count} problem{'s' if count != 1 else ''}:\n" + "\n".join(lines),
            fix="Mend each as said above.",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return CheckFailed, (self.problems,)


def told(value: object) -> str:
    """A value as an error shows it: in short, and the same each time, so without the address of an object.

    A class given in place of an instance is said to be one.

    >>> told(3), told(int), told(object()), told([object()])
    ('3', 'the class int itself', 'an object', 'a list with an object')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    text = repr(value)
    if " at 0x" in text and isinstance(value, list | tuple | set | frozenset | dict):
        inside = value.values() if isinstance(value, dict) else value
        return f"{_some(value)} with {next((told(each) for each in inside if ' at 0x' in repr(each)), 'more')}"
    if " at 0x" in text:
        return name_of(value) if callable(value) and hasattr(value, "__qualname__") else _some(value)
    if len(text) <= LONGEST_TOLD:
        return text
    return reprlib.repr(value) if type(value).__module__ == "builtins" else _some(value)


def _some(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End a fix with the nearest known names, or with all of them when none is near.

    >>> did_you_mean("amuont", ["amount", "user"])
    "Did you mean 'amount'?"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    if near:
        return "Did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "Known: " + ", ".join(repr(n) for n in known) + "." if known else "There are none."


LIBRARIES: Final = "lib/python"
"""What stands in the path of every file that is not the user's own."""


def exception_in_words(error: BaseException) -> str:
    """What was raised, with what it says if it says anything.

    >>> exception_in_words(KeyError("gone")), exception_in_words(AssertionError())
    ("KeyError: 'gone'", 'AssertionError')
    """
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def name_of(function: Callable[..., Any]) -> str:
    """The name by which a user knows a function."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def raised_by(function: Callable[..., Any], error: BaseException) -> str:
    """What a user's function raised, and where in the user's file."""
    return raised(name_of(function), function, error)


def raised(who: str, function: Callable[..., Any], error: BaseException) -> str:
    """What a user's function raised, under the name by which the user knows it; where it was in Java nobody needs to know.

    >>> raised("Own.add", print, KeyError("gone"))
    "Own.add raised KeyError: 'gone'"
    """
    said, place = str(error).partition("\n\tat ")[0], written_at(function, error)
    return f"{who} raised {type(error).__name__}{place and f' ({place})'}{said and f': {said}'}"


def written_at(function: Callable[..., Any], error: BaseException) -> str:
    """File and line of what a user's function raised: the innermost call in its own file, or in one beside or below that.

    What is called from there are others' libraries, which may be installed below a project of the user's, too.

    A function that was called wrongly is not among the calls: then it is where it is written.
    """
    calls = traceback.extract_tb(error.__traceback__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    own = [call for call in calls if code is not None and _lies_with(call.filename, code.co_filename)]
    if own or calls[1:]:
        call = (own or calls)[-1]  # the first call is that of whoever called the function
        return f"{call.filename}, line {call.lineno}"
    return "" if code is None else f"{code.co_filename}, line {code.co_firstlineno}"


def _lies_with(file: str, own: str) -> bool:
    """Whether a file is a user's own one, or lies beside or below it and is no library's.

    >>> [_lies_with(file, "/shop/flow.py") for file in ("/shop/prices.py", "/shop/.venv/lib/python3.11/json.py", "/x.py")]
    [True, False, False]
    """
    folder = own.rpartition("/")[0] + "/"
    return file == own or (file.startswith(folder) and LIBRARIES not in file[len(folder) :])

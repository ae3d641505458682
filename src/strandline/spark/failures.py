"""What Spark raises, as what went wrong: an error of ours that a worker raised comes back as itself."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Final

import py4j
import pyspark
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from strandline import errors
from strandline.errors import RunError, StrandlineError

_OURS: Final = re.compile(r"strandline\.[\w.]+?\.(\w+): (.*?)\n\s*fix: ([^\n]*)", re.DOTALL)
_TRACEBACK: Final = re.compile(r"Traceback[^\n]*:\n((?:[ \t][^\n]*\n)+)((?:\w+\.)*\w+)(?:: ([^\n]*))?")
_CALL: Final = re.compile(r'File "([^"\n]+)", line (\d+)')
_LIBRARIES: Final = {Path(str(module.__file__)).parent for module in (py4j, pyspark, errors)}
_RAISED: Final = re.compile(r"(?:^|\n)[:\s]*(?:\w+\.)*(\w*(?:Error|Exception)): ([^\n]*)")


UNANSWERED: Final = (Py4JError, ConnectionError, PySparkRuntimeError)
"""What may be raised when Spark's Java process does not answer, or ends while it starts."""


def told_by(failure: BaseException) -> BaseException:
    """The error to raise for a failure."""
    if isinstance(failure, StrandlineError | KeyboardInterrupt | SystemExit):
        return failure
    try:
        text = str(failure)
    except UNANSWERED as unanswered:  # an error of Java's asks Java for its text
        return _caused(_gone(str(unanswered)), failure)
    if _is_unanswered(failure):
        return _caused(_gone(text), failure)
    if found := _OURS.findall(text):
        name, what, fix = found[-1]
        kind = getattr(errors, name, RunError)
        kind = kind if kind is not errors.CheckFailed else RunError
        return _caused(kind(what, fix=fix), failure)
    first = text.partition("\n")[0]
    what = (
        _what_python_raised(text) or _what_java_raised(text) or f"{type(failure).__name__}: {first}".removesuffix(": ")
    )
    return _caused(
        RunError(f"The run failed: {what}", fix="Mend the cause and start the flow again: it goes on where it was."),
        failure,
    )


def _what_python_raised(text: str) -> str:
    """What was raised last in a worker, and where in the user's own files, if they had to do with it."""
    raised = _TRACEBACK.findall(text)
    if not raised:
        return ""
    calls, name, message = raised[-1]
    own = [call for call in _CALL.findall(calls) if not is_of_a_library(call[0])]
    place = f" ({own[-1][0]}, line {own[-1][1]})" if own else ""
    return f"{name.rpartition('.')[2]}{place}: {message}" if message else f"{name.rpartition('.')[2]}{place}"


def _what_java_raised(text: str) -> str:
    raised = _RAISED.findall(text)
    return f"{raised[-1][0]}: {raised[-1][1]}" if raised else ""


def is_of_a_library(file: str) -> bool:
    """Whether a file is a module of Spark's or ours, wherever it lies: workers may have it from an archive."""
    parts = Path(file).parts
    return any(
        (library / Path(*parts[place + 1 :])).is_file()
        for library in _LIBRARIES
        for place, part in enumerate(parts)
        if part == library.name
    )


def _is_unanswered(failure: BaseException) -> bool:
    """An error of Java's own comes as another class; the plain one says that no answer came."""
    if isinstance(failure, ConnectionError):  # a sink's server may refuse, too
        return any("py4j" in Path(call.filename).parts for call in traceback.extract_tb(failure.__traceback__))
    return isinstance(failure, Py4JNetworkError) or type(failure) is Py4JError


def _gone(told: str) -> RunError:
    return RunError(
        f"Spark's Java process is gone: {told}",
        fix="Find out what ended it (too little memory, say), and start the flow again: it goes on where it was.",
    )


def _caused(error: StrandlineError, cause: BaseException) -> StrandlineError:
    error.__cause__ = cause
    return error

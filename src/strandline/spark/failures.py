"""What Spark raises, as what went wrong: an error of ours that a worker raised comes back as itself."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from strandline import errors
from strandline.errors import RunError, StrandlineError

_OURS: Final = re.compile(r"strandline\.[\w.]+?\.(\w+): (.*?)\n\s*fix: ([^\n]*)", re.DOTALL)
_PYTHON: Final = re.compile(r"(?:^|\n)\s*(?:\w+\.)*(\w*(?:Error|Exception)): ([^\n]*)")


UNANSWERED: Final = (Py4JError, ConnectionError, PySparkRuntimeError)
"""What may be raised when Spark's Java process does not answer, or ends while it starts."""


def told_by(failure: BaseException) -> BaseException:
    """The error to raise for a failure."""
    if isinstance(failure, StrandlineError | KeyboardInterrupt | SystemExit):
        return failure
    if _is_gone(failure):
        return _caused(
            RunError(
                f"Spark's Java process is gone: {failure}",
                fix="Find out what ended it (too little memory, say), and start the flow again: it goes on where it was.",
            ),
            failure,
        )
    text = str(failure)
    if found := _OURS.findall(text):
        name, what, fix = found[-1]
        kind = getattr(errors, name, RunError)
        kind = kind if kind is not errors.CheckFailed else RunError
        return _caused(kind(what, fix=fix), failure)
    raised = _PYTHON.findall(text)
    what = f"{raised[-1][0]}: {raised[-1][1]}" if raised else text.splitlines()[0] if text else type(failure).__name__
    return _caused(
        RunError(f"The run failed: {what}", fix="Mend the cause and start the flow again: it goes on where it was."),
        failure,
    )


def _is_gone(failure: BaseException) -> bool:
    """An error of Java's own comes as another class; the plain one says that no answer came."""
    return isinstance(failure, ConnectionError | Py4JNetworkError) or type(failure) is Py4JError


def _caused(error: StrandlineError, cause: BaseException) -> StrandlineError:
    error.__cause__ = cause
    return error

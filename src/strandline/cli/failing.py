"""How the command line fails: what is wrong and what to do, on stderr, and an exit code that says of which kind it is."""

from __future__ import annotations

import traceback
from typing import Final

from rich.console import Console
from rich.text import Text

from strandline.errors import CheckFailed, DescriptionError, StrandlineError

FAILED: Final = 1
WRONG_USE: Final = 2
CHECK_FAILED: Final = 3


class WrongUse(StrandlineError):
    """A command that cannot be carried out as it was given."""


def exit_code(error: BaseException) -> int:
    """The exit code of a failure.

    >>> exit_code(WrongUse("There is no file.", fix="Name one.")), exit_code(CheckFailed([])), exit_code(OSError())
    (2, 3, 1)
    """
    if isinstance(error, CheckFailed):
        return CHECK_FAILED
    return WRONG_USE if isinstance(error, WrongUse | DescriptionError) else FAILED


def tell(error: BaseException, console: Console) -> None:
    """Say what is wrong and what to do; of an error that is not ours, its kind and where it came from."""
    if isinstance(error, StrandlineError):
        what, fix = error.what, error.fix
    else:
        what = f"{type(error).__name__}: {error}"
        fix = f"It came from {_place(error)}; say --debug to see all of it."
    console.print(Text.assemble(("error: ", "bold red"), what), soft_wrap=True)
    console.print(Text.assemble(("  fix: ", "bold"), fix), soft_wrap=True)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "outside of Python"

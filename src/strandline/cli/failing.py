"""How the command line fails: what is wrong and what to do, on stderr, and an exit code that says of which kind it is."""

from __future__ import annotations

import errno
import re
import traceback
from typing import Final

from rich.console import Console
from rich.text import Text

from strandline.errors import CheckFailed, DescriptionError, StrandlineError, did_you_mean, exception_in_words

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
CHECK_FAILED: Final = 3
UNHEALTHY: Final = 4
INTERRUPTED: Final = 130

EXIT_CODES: Final = {
    DONE: "Done. A run that was stopped with Ctrl-C, and ended the tick that it was making, is done too.",
    FAILED: "It failed, and can be tried again when the cause is mended; or what was asked for is not so (`doctor`, `kafka status`).",
    WRONG_USE: "Wrong use: of the command line, of a file, of a description in it. Tried again it would fail again.",
    CHECK_FAILED: "The flow is refused: `check` says everything that is wrong with it.",
    UNHEALTHY: "The flow is unhealthy: `status --health` says what is wrong, why, and what to do.",
    INTERRUPTED: "Interrupted with Ctrl-C before it was done.",
}


class WrongUse(StrandlineError):
    """A command that cannot be carried out as it was given."""


def not_understood(error: Exception) -> WrongUse | None:
    """A line that the parser of command lines does not understand, as an error like all others; None if it is another.

    Whoever names a group of commands alone is shown what there is in it.
    """
    say, context = getattr(error, "format_message", None), getattr(error, "ctx", None)
    if say is None:
        return None
    command = "strandline" if context is None else context.command_path
    if type(error).__name__ == "NoArgsIsHelpError":
        return WrongUse(f"{command} needs to be told what to do.", fix=f"{command} --help says what there is.")
    if (wrong := _wrong_value(error)) is not None:
        return wrong
    first, *rest = str(say()).strip().splitlines()
    what = " ".join([first.strip(), *(line.strip() for line in rest)])
    return WrongUse(what if what.endswith((".", "?")) else f"{what}.", fix=f"{command} --help says what there is.")


def _wrong_value(error: Exception) -> WrongUse | None:
    """A value that an option does not take, from what the parser's own parser says of it; None of anything else."""
    option, told = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if option is None or told is None:
        return None
    name, (first, *_) = option.opts[0], told()
    value, limits = first["input"], first.get("ctx", {})
    choices = re.findall("'([^']*)'", first["msg"].partition("is not one of")[2])
    match first["type"]:
        case "int_parsing" | "int_from_float":
            return WrongUse(f"{name} {value!r} is no whole number.", fix="Give one in digits, such as 10.")
        case "greater_than_equal":
            return WrongUse(f"{name} {value} is too little.", fix=f"Give {limits['ge']} or more.")
        case "less_than_equal":
            return WrongUse(f"{name} {value} is too much.", fix=f"Give {limits['le']} or less.")
        case "value_error" if choices:
            return WrongUse(f"{name} {value!r} is not known.", fix=did_you_mean(value, choices))
    return None


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
    elif isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        where = f" {error.filename}" if error.filename else " what was said"
        what, fix = f"There is no room for{where}: {error.strerror}.", "Make room on the disk, or write it elsewhere."
    else:
        what = exception_in_words(error)
        fix = f"It came from {_place(error)}; say --debug to see all of it."
    console.print(Text.assemble(("error: ", "bold red"), what), soft_wrap=True)
    console.print(Text.assemble(("  fix: ", "bold"), fix), soft_wrap=True)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "outside of Python"

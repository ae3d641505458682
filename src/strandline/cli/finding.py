"""Find the flow that a command is about: FILE, or FILE:NAME where a file has several; flow.py if nothing is said."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Final

from strandline.cli.failing import WrongUse
from strandline.errors import StrandlineError, did_you_mean, exception_in_words
from strandline.model.flow import BEING_READ, Flow

MEND: Final = "Mend that line; --debug shows how it came there."

COMPLETING: Final = "_STRANDLINE_COMPLETE"
"""What the shell sets when it only asks how a line may go on."""

DEFAULT: Final = "flow.py"
"""The file that is meant where none is named: what `strandline init` makes."""


def find_flow(place: str | None = None) -> Flow:
    """The flow in a file; WrongUse says what is wrong with the file, and where in it."""
    path, name = _split(place)
    module = _load(path)
    flows = _flows(module)
    if name is not None:
        return _named(flows, name, path)
    distinct = {id(flow): flow for flow in flows.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not distinct:
        raise WrongUse(f"There is no flow in {path}.", fix="Write there, at the top level: flow = sl.Flow('name').")
    raise WrongUse(
        f"There are {len(distinct)} flows in {path}: {', '.join(flows)}.", fix=f"Name one: {path}:{next(iter(flows))}."
    )


def state_beside(place: str | None, flow: Flow) -> Path:
    """Where a flow's state is if nothing is said: `state/NAME` beside its file, so that flows of one folder share none."""
    path, _ = _split(place)
    return path.resolve().parent / "state" / flow.name


def the_only_state() -> str:
    """The state that is meant where none is named: of the one flow that was run here without --state."""
    found = sorted(each.parent for each in Path("state").glob("*/manifests"))
    if len(found) == 1:
        return str(found[0])
    if COMPLETING in os.environ:  # the line is not whole yet
        return ""
    if not found:
        raise WrongUse(
            "No state is named, and there is none in ./state.", fix="Say --state, as the flow was run with it."
        )
    names = ", ".join(map(str, found))
    raise WrongUse(f"Which state? There are {len(found)}: {names}.", fix=f"Say, for example, --state {found[0]}.")


def _split(place: str | None) -> tuple[Path, str | None]:
    if place is None:
        if not Path(DEFAULT).is_file():
            raise WrongUse(
                f"No file is named, and there is no {DEFAULT} in {Path.cwd()}.",
                fix="Name the file that makes the flow, go to its folder, or make a project: strandline init NAME.",
            )
        place = DEFAULT
    path, name = Path(place), None
    if not path.exists() and ":" in place:
        front, _, back = place.rpartition(":")
        path, name = Path(front), back
    if not path.exists():
        near = [str(each) for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise WrongUse(
            f"There is no file {path}.", fix=did_you_mean(str(path), near) if near else "Name a Python file."
        )
    if not path.is_file() or path.suffix != ".py":
        raise WrongUse(f"{path} is no Python file.", fix="Name the file that makes the flow, such as flow.py.")
    if name is not None and not name.isidentifier():
        raise WrongUse(f"{name!r} is no name of a flow in {path}.", fix=f"Write {path}:flow, or {path} alone.")
    return path, name


def _load(path: Path) -> ModuleType:
    """Execute the file, as an import does: what stands under `if __name__ == "__main__":` is not executed."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    # What the file imports from beside it must be found by Spark's workers too, which get no sys.path.
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    name = f"strandline_flow_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    reading = BEING_READ.set(True)
    try:
        with redirect_stdout(sys.stderr):  # what the file prints is no part of a command's answer
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit is one, and so may be an error of the user's own
        raise _at_fault(error, path) from error
    finally:
        BEING_READ.reset(reading)
        # Functions and classes of a module that nobody can import travel to workers by value.
        del sys.modules[name]
    return module


def _at_fault(error: BaseException, path: Path) -> WrongUse:
    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        return WrongUse(f"{path}, line {error.lineno}: {error.msg}.", fix="Mend that line.")
    own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    where = f"{path}, line {own[-1].lineno}: {own[-1].line}" if own else str(path)
    beside = _beside(error, path)
    where += f"\n{beside.filename}, line {beside.lineno}: {beside.line}" if beside else ""
    if isinstance(error, SystemExit):
        return WrongUse(
            f"{where}\nThe file ends the program.",
            fix="Put it under if __name__ == '__main__':, so that it can be read.",
        )
    if isinstance(error, StrandlineError):
        return WrongUse(f"{where}\n{error.what}", fix=error.fix)
    return WrongUse(f"{where}\n{exception_in_words(error)}", fix=_nearest(error) or MEND)


def _beside(error: BaseException, path: Path) -> traceback.FrameSummary | None:
    """The last call in another file of the user's: one that lies where the flow's file does, and is none of a library's."""
    folder = path.resolve().parent
    calls = traceback.extract_tb(error.__traceback__)
    there = [(call, Path(call.filename)) for call in calls if "site-packages" not in call.filename]
    beside = [call for call, file in there if file.is_file() and folder in file.resolve().parents]
    return beside[-1] if beside and Path(beside[-1].filename).resolve() != path.resolve() else None


def _nearest(error: BaseException) -> str:
    """What may have been meant by a name that is not there."""
    name, there = getattr(error, "name", None), getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not name:
        return ""
    near = difflib.get_close_matches(name, [each for each in dir(there) if not each.startswith("_")], n=1)
    return did_you_mean(name, near) if near else ""


def _flows(module: ModuleType) -> dict[str, Flow]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Flow)}


def _named(flows: dict[str, Flow], name: str, path: Path) -> Flow:
    known = {**{flow.name: flow for flow in flows.values()}, **flows}
    if name not in known:
        raise WrongUse(f"There is no flow {name!r} in {path}.", fix=did_you_mean(name, known))
    return known[name]

"""What the shell may offer where a name is typed. It never fails: where nothing can be known, nothing is offered."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from strandline.store.manifests import Manifests
from strandline.store.savepoints import savepoints
from strandline.store.storage import storage_at


def flow_files(incomplete: str) -> list[str]:
    """Python files and folders that begin so."""
    return [each for each in _paths(incomplete) if each.endswith((".py", "/"))]


def state_folders(incomplete: str) -> list[str]:
    """Folders that begin so, those that hold state first."""
    folders = [each for each in _paths(incomplete) if each.endswith("/")]
    return sorted(folders, key=lambda each: not (Path(each) / "manifests").is_dir())


def stage_names(ctx: Any, incomplete: str) -> list[str]:
    """The stages of the state that was named before."""
    names: list[str] = []
    with suppress(Exception):
        head = Manifests(storage_at(ctx.params["state"])).head()
        names = [] if head is None else [name for name in head.stages if name.startswith(incomplete)]
    return names


def savepoint_names(ctx: Any, incomplete: str) -> list[str]:
    """The savepoints of the state that was named before."""
    names: list[str] = []
    with suppress(Exception):
        found = savepoints(storage_at(ctx.params["state"]))
        names = [each.name for each in found if each.name.startswith(incomplete)]
    return names


def _paths(incomplete: str) -> list[str]:
    """What begins so, folders with a slash at their end; hidden ones only if they are asked for."""
    folder, name = Path(incomplete).parent, Path(incomplete).name
    if incomplete.endswith("/") or not incomplete:
        folder, name = Path(incomplete or "."), ""
    with suppress(Exception):
        near = [each for each in sorted(folder.iterdir()) if each.name.startswith(name)]
        seen = [each for each in near if each.name.startswith(".") == name.startswith(".")]
        return [f"{each}/" if each.is_dir() else str(each) for each in seen]
    return []

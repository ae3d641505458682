"""The disk is full: a real one of some megabytes where this user may mount it, and one that says so for files of a kind."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from chaos.stage import Stage, head_of, recovery_after
from chaos.trials import Trial

FAULT: Final = "a full disk"
KILOBYTES: Final = (0, 4, 12, 30, 80, 200, 400, 760, 790, 830, 1100, 1600)
KINDS: Final = (
    "state/state", "state/manifests", "copies/_log", "state/probe", "state/outputs", "state/journal", "copies/data",
    "changes/_log", "changes/data", "rejected",
)  # fmt: skip
ROOM: Final = 96  # megabytes; most of it is filled


def fill_disks(stage: Stage, *, quick: bool) -> None:
    """With so much room left, the run stops by name; when there is room again it goes on."""
    disk = None if quick else _mounted(stage)
    if disk is not None:
        try:
            for left in KILOBYTES:
                stage.note(_filled(stage, disk, left))
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=False)
    for kind in KINDS[2:3] if quick else KINDS:
        stage.note(_refused(stage, kind))


def _mounted(stage: Stage) -> Path | None:
    disk = stage.root / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}m", "tmpfs", str(disk)]
    done = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    if done:
        (disk / "events").symlink_to(stage.root / "events")
    return disk if done else None


def _filled(stage: Stage, disk: Path, left: int) -> Trial:
    """A disk with so many kilobytes left."""
    folder, ballast = disk / f"run-{left}", disk / "ballast"
    shutil.copytree(stage.base(), folder)
    trial = Trial(fault=FAULT, how="a real one", what=f"{left} kB are left")
    free = shutil.disk_usage(disk).free - left * 1024
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free)
    error = stage.attempt(folder)
    ballast.unlink()
    _went_on(stage, folder, trial, error)
    shutil.rmtree(folder)
    return trial


def _refused(stage: Stage, kind: str) -> Trial:
    """This process can write nothing more, from the first file of a kind on."""
    folder = stage.copy_of_base("full")
    trial = Trial(fault=FAULT, how="at the first file of a kind", what=kind)
    with _full_from(folder / kind):
        error = stage.attempt(folder)
    _went_on(stage, folder, trial, error)
    return trial


def _went_on(stage: Stage, folder: Path, trial: Trial, error: tuple[str, str]) -> None:
    head = head_of(folder)
    trial.error, trial.told = error
    trial.verdict = stage.verdict_so_far(folder)
    if not trial.error:
        trial.amiss = "the run did not notice"
    again, told = stage.attempt(folder)
    trial.amiss += f"with room again it ended with {again}: {told}" if again else ""
    trial.verdict += stage.verdict(folder)
    trial.recovery = recovery_after(folder, head)


@contextmanager
def _full_from(place: Path) -> Iterator[None]:
    """Let the first write to a file in a folder fail, and all after it."""
    write, full = os.writev, False

    def writev(descriptor: int, buffers: Any, /) -> int:
        nonlocal full
        full = full or Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(place)
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, buffers)

    os.writev = writev
    try:
        yield
    finally:
        os.writev = write

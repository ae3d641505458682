"""The disk is full: a real one of a few megabytes where this user may mount it, else one that says so at the n-th write."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from chaos.orders import state_of
from chaos.stage import Stage, base, head_of, recovery_after
from chaos.trials import Trial

FAULT: Final = "a full disk"
KILOBYTES: Final = (0, 4, 12, 30, 80, 200, 400, 760, 790, 830, 1100, 1600)
WRITES: Final = (1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 20)
ROOM: Final = 96  # megabytes; most of it is filled


def fill_disks(stage: Stage, *, quick: bool) -> None:
    """With so much room left, the run stops by name; when there is room again it goes on."""
    disk = _mounted(stage)
    if disk is not None:
        try:
            for left in KILOBYTES[2:8:3] if quick else KILOBYTES:
                stage.note(_filled(stage, disk, left))
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=False)
    for number in WRITES[:2] if quick else WRITES:
        stage.note(_refused(stage, number))


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
    shutil.copytree(base(stage), folder)
    trial = Trial(fault=FAULT, how="a real one", what=f"{left} kB are left")
    free = shutil.disk_usage(disk).free - left * 1024
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free)
    error = stage.attempt(folder)
    ballast.unlink()
    _went_on(stage, folder, trial, error)
    shutil.rmtree(folder)
    return trial


def _refused(stage: Stage, number: int) -> Trial:
    """The n-th file that this process writes cannot be written."""
    folder = stage.copy_of_base("full")
    with _full_at(number) as refused:
        error = stage.attempt(folder)
    kind = _kind(folder, Path(refused[0])) if refused else "none"
    trial = Trial(fault=FAULT, how=f"at {kind}", what=f"write {number}")
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
def _full_at(number: int) -> Iterator[list[str]]:
    """Let the n-th write to a file fail, and all after it; which file it was."""
    write, paths, count = os.writev, list[str](), 0

    def writev(descriptor: int, buffers: Any, /) -> int:
        nonlocal count
        count += 1
        if count < number:
            return write(descriptor, buffers)
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.writev = writev
    try:
        yield paths
    finally:
        os.writev = write


def _kind(folder: Path, path: Path) -> str:
    """What the file was to be: the folder in which it is written says it."""
    inside = path.relative_to(folder)
    mine = inside.relative_to("state") if inside.is_relative_to(state_of(folder).name) else inside
    return f"{'a sink' if mine is inside else 'the state'}: {mine.parts[0]}"

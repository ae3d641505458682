"""A byte of a file is flipped, cut off or missing, or the file is: every kind of file that a run leaves.

A run that died in the middle is copied, one of its files is damaged, and it is gone on with. Either everything is as in
the undisturbed run; or an error of ours says what is wrong, nothing wrong was published, and when the file is put back
everything is as it should be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from chaos.judging import journal
from chaos.orders import state_of
from chaos.stage import Stage, head_of, recovery_after
from chaos.trials import Trial
from strandline.errors import StrandlineError
from strandline.store.manifests import Manifests
from strandline.store.storage import storage_at

FAULT: Final = "damage"
Copy = Mapping[Path, bytes | None]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


WAYS: Final[Mapping[str, Callable[[bytes, int], bytes | None]]] = {
    "a byte flipped": _flipped,
    "cut short": lambda data, at: data[:at],
    "a byte missing": lambda data, at: data[:at] + data[at + 1 :],
    "missing": lambda data, at: None,
}
AGAIN: Final = "a byte flipped"  # once more, at another place
# What anybody may read has no place for a checksum: that these are whole, or there at all, is all that can be known.
NO_CHECKSUM: Final = {"the last file of a sink": ("missing",), "the database": ("cut short", "missing")}
QUICK: Final = (
    ("the head's manifest", "a byte flipped"),
    ("state of the first stage", "cut short"),
    ("the head's output for the table", "a byte missing"),
    ("the source's log of files", "a byte flipped"),
    ("Spark's offsets", "missing"),
    ("the last file of a sink", "missing"),
    ("the database's log", "cut short"),
)


def kinds(folder: Path) -> dict[str, Path]:
    """One file of each kind."""
    state, storage = state_of(folder), storage_at(state_of(folder))
    head = Manifests(storage).head()
    assert head is not None, "the base run has made ticks"
    assert head.spark is not None, "ticks of a run are batches of Spark's"
    spark = state / "spark" / head.spark.query
    segments = {name: state / max(stage.files) for name, stage in head.stages.items()}
    outputs = {name: state / sink.outputs[0].file for name, sink in head.sinks.items() if sink.outputs}
    return {
        "the head's manifest": state / f"manifests/{head.number:012}.json",
        "its parent's manifest": state / f"manifests/{head.number - 1:012}.json",
        "an older manifest": state / f"manifests/{head.number - 3:012}.json",
        "state of the first stage": segments["per_minute"],
        "state of the second stage": segments["totals"],
        "state of sessions": segments["visits"],
        "the head's output for the table": outputs["table"],
        "the head's output for files": outputs["copies"],
        "an older output": _last(state / "outputs/copies", f"{head.number - 2:012}-*"),
        "staging": _last(state / "staging", "*"),
        "the journal": state / f"journal/{head.number - 1:012}.json",
        "a savepoint": state / "savepoints/kept.json",
        "the incarnation": state / "incarnation",
        "the source's log of files": _last(state / "sources/orders/log", "*"),
        "the source's note of its folder": state / "sources/orders/root",
        "Spark's offsets": spark / f"offsets/{head.spark.batch}",
        "Spark's commits": _last(spark / "commits", "[0-9]*"),
        "Spark's metadata": spark / "metadata",
        "the owner of a sink's folder": folder / "copies/_strandline/owner.json",
        "the last entry of a sink's log": _last(folder / "copies/_log", "*.json"),
        "an older entry of a sink's log": sorted((folder / "copies/_log").glob("*.json"))[2],
        "the last file of a sink": _last(folder / "rejected", "tick-*"),
        "a data file of a sink": _last(folder / "copies/data", "*"),
        "the database": folder / "results.db",
        "the database's log": folder / "results.db-wal",
    }


def _last(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.name)


def do_damage(stage: Stage, *, quick: bool) -> None:
    """Every kind of file, every way; in the quick run some of them."""
    for seed, (kind, way) in enumerate(QUICK if quick else all_of(kinds(stage.copy_of_base("looked-at")))):
        stage.note(damaged(stage, kind, way, seed=seed))


def all_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """Every kind of file, with the ways to damage it."""
    return [(kind, way) for kind in names for way in NO_CHECKSUM.get(kind, (*WAYS, AGAIN))]


def damaged(
    stage: Stage, kind: str, way: str, *, seed: int, found: Callable[[Path], Mapping[str, Path]] = kinds
) -> Trial:
    """One file damaged in one way; `found` names the files of a run."""
    folder = stage.copy_of_base("damaged")
    path, head = found(folder)[kind], head_of(folder)
    whole = path.read_bytes()
    at = random.Random(f"{kind} {way} {seed}").randrange(len(whole))
    copy = _copy(folder, path)
    _put(path, WAYS[way](whole, at))
    trial = Trial(fault=f"{FAULT}: {way}", how=kind, what=f"byte {at} of {len(whole)}")
    trial.error, trial.told = stage.attempt(folder)
    if trial.error:
        _mend(stage, folder, copy, trial)
    else:
        _judge(stage, folder, copy, trial)
    trial.recovery = recovery_after(folder, head)
    return trial


def _copy(folder: Path, path: Path) -> Copy:
    """What has to be put back: the file; of a database all its files, for only together they mean something."""
    together = [folder / f"results.db{end}" for end in ("", "-wal", "-shm")]
    return {each: each.read_bytes() if each.exists() else None for each in (together if path in together else [path])}


def _judge(stage: Stage, folder: Path, copy: Copy, trial: Trial) -> None:
    """The run went through: all is there, or the reader of the sink says what is wrong with it."""
    try:
        trial.verdict = stage.verdict(folder)
        journal(folder)
    except StrandlineError as error:
        trial.error, trial.told = f"{type(error).__name__}, when read", error.what[:300]
        _put_back(copy)
        trial.verdict = stage.verdict(folder)


def _mend(stage: Stage, folder: Path, copy: Copy, trial: Trial) -> None:
    """The run was stopped: nothing wrong is there, and with the file put back the next run ends well."""
    _put_back(copy)
    trial.verdict = stage.verdict_so_far(folder)
    again, told = stage.attempt(folder)
    if again:
        trial.amiss = f"with the file put back it ended with {again}: {told}"
    else:
        trial.verdict += stage.verdict(folder)


def _put_back(copy: Copy) -> None:
    for path, data in copy.items():
        _put(path, data)


def _put(path: Path, data: bytes | None) -> None:
    """Never in place: the file may be shared with other trials."""
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)

"""Spark's checkpoint: a cache, made anew from the head manifest at each start.

Spark needs the offsets of the last batch and the word that it was done; everything else is in our manifests. So nothing
that happens to the folder between two runs can matter; but for what some of Spark's own sources remember there (a
DataFrame source of files, say), which is taken over, and must be there.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strandline.errors import RunError, StateError
from strandline.model.time import Span
from strandline.sources.contract import Reader
from strandline.spark import clock
from strandline.store.manifests import Manifests, SparkPlace
from strandline.store.savepoints import pins
from strandline.store.storage import Storage

UNUSED = Span.of("1h")
REMEMBERED = "sources"  # where Spark's own sources keep what is more than an offset
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The folder of one run's query."""

    folder: Path
    query: str
    frames: tuple[str, ...] = ()  # the DataFrame sources, in order

    def place(self, batch: int) -> SparkPlace:
        """Where Spark is with this batch: the text of its offsets is written before the batch begins."""
        path = self.folder / "offsets" / str(batch)
        try:
            text = path.read_text()
        except OSError as error:
            raise RunError(
                f"Spark's offsets of batch {batch} cannot be read: {error}.",
                fix="Start the flow again: the checkpoint is made anew from the state.",
            ) from error
        remembers = bool(self.frames) and (self.folder / REMEMBERED).is_dir()
        return SparkPlace(query=self.query, batch=batch, offsets=text, frames=self.frames, remembers=remembers)


def offsets_of(text: str) -> dict[str, Any]:
    """Our own source's offset in the text of a batch's offsets: it stands first."""
    lines = text.splitlines()
    if len(lines) < 3 or not lines[0].startswith("v"):
        raise RunError(
            "Spark's offsets do not look as they should.", fix="Use a version of PySpark from 4.2 up to 5, without it."
        )
    told: dict[str, Any] = json.loads(lines[2])
    return told


def frame_offsets_of(text: str) -> list[str]:
    """The offsets of DataFrame sources in the text of a batch's offsets, in their order."""
    return text.splitlines()[3:]


def require_same_kinds(readers: Mapping[str, Reader], head: SparkPlace | None) -> None:
    """Refuse a source under the name of one of another kind: its place means nothing to it."""
    offsets = {} if head is None else offsets_of(head.offsets)["sources"]
    for name, reader in readers.items():
        if name in offsets and offsets[name].keys() != reader.first().keys():
            raise StateError(
                f"The source {name!r} is of another kind than the one that the state knows: where that was, {offsets[name]}, "
                "means nothing to it.",
                fix=f"Give the new source another name, and forget the old one: run(..., drop=[{name!r}]).",
            )


def remembering(storage: Storage) -> set[str]:
    """The queries whose folders savepoints need, or would need if a tick that is still there is kept."""
    manifests = Manifests(storage)
    there = [*pins(storage), *(manifests.at(number) for number in manifests.numbers())]
    return {each.spark.query for each in there if each.spark is not None and each.spark.remembers}


def make_checkpoint(
    parent: Path, head: SparkPlace | None, frames: tuple[str, ...] = (), *, needed: Collection[str] = ()
) -> Checkpoint:
    """A fresh folder in which Spark goes on from the head, or from the beginning.

    What Spark's own sources remember apart from their offsets is taken over from the run before; what they remembered in
    the queries that are `needed` stays.
    """
    query = str(uuid.uuid4())
    folder = parent / query
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    (folder / "metadata").write_text(json.dumps({"id": query}))
    if head is not None:
        (folder / "offsets" / "0").write_text(head.offsets)
        (folder / "commits" / "0").write_text(_COMMIT)
        _take_over(parent / head.query / REMEMBERED, folder / REMEMBERED, head)
    for other in parent.iterdir():
        # A folder in use is written to with each batch; one that is not must be of a run that is over.
        offsets = other / "offsets"
        written = int((offsets if offsets.is_dir() else other).stat().st_mtime * 1_000_000)
        if clock.now() - written > UNUSED and other.name not in {query, head.query if head else None, *needed}:
            shutil.rmtree(other, ignore_errors=True)
    return Checkpoint(folder=folder, query=query, frames=frames)


def _take_over(old: Path, new: Path, head: SparkPlace) -> None:
    if old.is_dir():
        shutil.copytree(old, new)
    elif head.remembers:
        raise RunError(
            f"A DataFrame source of this flow keeps a record of its own of what it has read, and {old} is gone.",
            fix="Put the folder back from a copy of the state; without it the source would read too much or too little.",
        )

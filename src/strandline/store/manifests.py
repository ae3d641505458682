"""Manifests: what each tick left, and the chain of them. Each is created once and names the one before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from strandline.errors import MissingFile, OwnershipError, StateError
from strandline.kernel.segments import damaged
from strandline.model.hashing import HASH_VERSION
from strandline.model.partitions import SourceState
from strandline.model.ticks import Tick
from strandline.store.layout import MANIFESTS, manifest_file
from strandline.store.records import (
    OutputRef,
    PendingTick,
    SegmentRef,
    SinkRecord,
    SparkPlace,
    StageRecord,
    sink_from_json,
    spark_from_json,
    stage_from_json,
    stage_to_json,
)
from strandline.store.sealed import seal, unsealed
from strandline.store.storage import Storage, digest_of

__all__ = [
    "Manifest",
    "Manifests",
    "OutputRef",
    "PendingTick",
    "SegmentRef",
    "SinkRecord",
    "SparkPlace",
    "StageRecord",
]

MANIFEST_VERSION: Final = 1
_NAME: Final = re.compile(re.escape(MANIFESTS) + r"(\d{12})\.json")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All that a tick left. The manifest after it names it as its parent, by digest.

    Law: `Manifest.from_bytes(m.to_bytes()) == m`, and equal manifests have equal bytes.

    >>> from strandline.model.time import Instant
    >>> first = Manifest(flow="f", incarnation="i", run="r", tick=Tick(number=0, now=Instant(5), edges={}))
    >>> Manifest.from_bytes(first.to_bytes()) == first
    True
    """

    flow: str
    incarnation: str
    run: str
    tick: Tick
    parent: str | None = None
    spark: SparkPlace | None = None
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    stages: Mapping[str, StageRecord] = field(default_factory=dict)
    sinks: Mapping[str, SinkRecord] = field(default_factory=dict)
    buckets: int = 64
    hash_version: int = HASH_VERSION
    finished: bool = False
    journal: Mapping[str, Any] = field(default_factory=dict)
    restarts: int = 0

    @property
    def restored_from(self) -> str | None:
        """The incarnation before, if this manifest begins a new one from a savepoint."""
        restored: Mapping[str, str] = self.journal.get("restored", {})
        return restored.get("incarnation")

    def to_bytes(self) -> bytes:
        """Canonical JSON, with a version and a checksum of the body."""
        return self._bytes

    @cached_property
    def _bytes(self) -> bytes:
        plain = {name: getattr(self, name) for name in _PLAIN}
        body = {
            **plain,
            "tick": self.tick.to_json(),
            "spark": None if self.spark is None else asdict(self.spark),
            "sources": {name: source.to_json() for name, source in self.sources.items()},
            "stages": {name: stage_to_json(stage) for name, stage in self.stages.items()},
            "sinks": {name: asdict(sink) for name, sink in self.sinks.items()},
        }
        return seal(body, version=MANIFEST_VERSION)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the manifest") -> Manifest:
        """Read what `to_bytes` wrote; StateError names the file that is damaged, or of another version."""
        body = unsealed(data, name, version=MANIFEST_VERSION)
        return cls(
            **{plain: body[plain] for plain in _PLAIN},
            tick=Tick.from_json(body["tick"]),
            spark=None if body["spark"] is None else spark_from_json(body["spark"]),
            sources={source: SourceState.from_json(kept) for source, kept in body["sources"].items()},
            stages={stage: stage_from_json(kept) for stage, kept in body["stages"].items()},
            sinks={sink: sink_from_json(kept) for sink, kept in body["sinks"].items()},
        )

    @property
    def digest(self) -> str:
        """A short text that differs when the manifest does."""
        return digest_of(self.to_bytes())

    @property
    def number(self) -> int:
        """The number of its tick."""
        return self.tick.number

    def files(self) -> set[str]:
        """The names of all files that it needs."""
        named = [stage.files for stage in self.stages.values()] + [sink.files for sink in self.sinks.values()]
        return {file for files in named for file in files}


_PLAIN: Final = (
    "flow", "incarnation", "run", "parent", "buckets", "hash_version", "finished", "journal", "restarts",
)  # fmt: skip


class Manifests:
    """The manifests of a flow, in its storage.

    Laws: of several runs that commit the same tick one succeeds; a manifest never changes; numbers have no gap.

    >>> import tempfile
    >>> from strandline.model.ticks import Tick
    >>> from strandline.model.time import Instant
    >>> from strandline.store.storage import storage_at
    >>> manifests = Manifests(storage_at(tempfile.mkdtemp()))
    >>> manifests.head() is None
    True
    >>> manifests.commit(Manifest(flow="f", incarnation="i", run="r", tick=Tick(number=0, now=Instant(5), edges={})))
    >>> manifests.head().number
    0
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._known: Manifest | None = None  # the last head seen: a place to look from, not an answer

    def head(self) -> Manifest | None:
        """The youngest manifest; None if there is none. Costs no more when there are many."""
        found = self._ahead_of_known() or self._last_of_all()
        if found is not None and found is not self._known:
            self._require_parent(found)
        self._known = found
        return found

    def at(self, tick: int) -> Manifest:
        """The manifest of a tick; MissingFile names it when it is not there."""
        name = manifest_file(tick)
        manifest = Manifest.from_bytes(self.storage.read(name), f"The file {name!r}")
        if manifest.number != tick:
            raise damaged(f"the file {name!r} holds the manifest of tick {manifest.number}")
        return manifest

    def numbers(self) -> list[int]:
        """The ticks whose manifests are kept, in order; StateError names one that is missing in the middle."""
        found = self._listed()
        for _ in range(3):  # a listing is not of one moment: numbers may come, and the oldest go, while it is made
            if not found or found[-1] - found[0] < len(found):
                return found
            found = self._listed()
        gap = next(n for n in range(found[0], found[-1]) if n not in found)
        raise damaged(f"the file {manifest_file(gap)!r} is missing, and younger manifests are there")

    def _listed(self) -> list[int]:
        return [int(match[1]) for name in self.storage.names(MANIFESTS) if (match := _NAME.fullmatch(name))]

    def commit(self, manifest: Manifest) -> None:
        """Make the manifest the head; OwnershipError when another run was faster.

        Done again with the same manifest it changes nothing: a retried write may meet its own success.
        """
        name = manifest_file(manifest.number)
        head = self.head()
        if head is not None and head.number >= manifest.number:
            return self._require_mine(manifest, name)
        if manifest.parent != (None if head is None else head.digest):
            raise _not_the_parent(manifest, head)
        if head is not None and manifest.number != head.number + 1:
            raise StateError(
                f"Tick {manifest.number} cannot follow tick {head.number}.", fix=f"Commit tick {head.number + 1} next."
            )
        if not self.storage.create(name, manifest.to_bytes()):
            return self._require_mine(manifest, name)
        self._require_free_by_right(manifest, name)
        self._known = manifest
        return None

    def _require_free_by_right(self, manifest: Manifest, name: str) -> None:
        """Take a manifest back whose name was free only because others had gone on, and cleaned up behind them.

        A run may sleep between looking at the head and creating the manifest, and also between that and this look: then
        others may have followed it, and cleaned up before it. Clean-up takes the oldest first, and keeps the head's parent.
        """
        number = manifest.number
        if manifest.parent is None:
            free = all(other <= number + 1 for other in self._listed())
        else:
            free = self.storage.exists(manifest_file(number - 1))
        if not free and not self._is_followed(manifest):
            self.storage.delete([name])
            raise _owned(f"Tick {number} of run {manifest.run!r} comes too late: others have gone far beyond it.")

    def _is_followed(self, manifest: Manifest) -> bool:
        """Whether the next manifest names this one as its parent: then it is a part of the chain, and no more to be undone."""
        try:
            return self.at(manifest.number + 1).parent == manifest.digest
        except MissingFile:  # also if both were cleaned up: then there is nothing to take back
            return False

    def _require_mine(self, manifest: Manifest, name: str) -> None:
        try:
            there = self.storage.read(name)
        except MissingFile:  # so old that it was cleaned up
            there = b""
        if there != manifest.to_bytes():
            raise _owned(f"The file {name!r} was committed with other contents than run {manifest.run!r} has.")

    def _ahead_of_known(self) -> Manifest | None:
        """The head, looked for from where it was last seen; None if that tells nothing."""
        known = self._known
        if known is None or not self.storage.exists(manifest_file(known.number)):
            return None
        number = known.number
        while self.storage.exists(manifest_file(number + 1)):
            number += 1
        return known if number == known.number else self.at(number)

    def _last_of_all(self) -> Manifest | None:
        numbers = self.numbers()
        return self.at(numbers[-1]) if numbers else None

    def _require_parent(self, manifest: Manifest) -> None:
        """Refuse a head whose parent is missing or is another than it names; clean-up always leaves the parent."""
        if manifest.parent is None:
            return
        name = manifest_file(manifest.number - 1)
        try:
            parent = self.at(manifest.number - 1)
        except MissingFile as error:
            if self.storage.exists(manifest_file(manifest.number + 1)):
                return  # others have gone on meanwhile, and cleaned up behind them
            raise damaged(f"the file {name!r} is missing, which tick {manifest.number} names as its parent") from error
        if parent.digest != manifest.parent:
            raise damaged(f"the file {name!r} is not the parent that the manifest of tick {manifest.number} names")


def _owned(what: str) -> OwnershipError:
    return OwnershipError(
        f"Another run owns this flow. {what}", fix="Stop one of the two runs; give each flow a state folder of its own."
    )


def _not_the_parent(manifest: Manifest, head: Manifest | None) -> OwnershipError:
    there = "there is no manifest at all" if head is None else f"the head is tick {head.number} of run {head.run!r}"
    return _owned(f"Tick {manifest.number} of run {manifest.run!r} does not follow the head: {there}.")

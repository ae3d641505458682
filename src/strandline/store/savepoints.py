"""Savepoints: manifests that are kept, under names that people give them.

A savepoint is a copy of a manifest beside the chain; clean-up leaves every file that it names. The pin is written first
and its files are verified then, so that no clean-up can take them in between.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from strandline.errors import MissingFile, StateError, did_you_mean
from strandline.store.layout import SAVEPOINTS, SOURCES, manifest_file
from strandline.store.manifests import Manifest, Manifests, PendingTick, SinkRecord
from strandline.store.storage import Storage, digest_of
from strandline.store.verify import verify

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_RESTORING: Final = re.compile(re.escape(SAVEPOINTS) + r"\.restoring-(\d{12})-[0-9a-f]+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A name, and the manifest that is kept under it."""

    name: str
    manifest: Manifest


def take(storage: Storage, name: str, tick: int | None = None) -> Savepoint:
    """Keep the head, or the manifest of an earlier tick that is still there, under a name.

    Law: when this returns, every file of the savepoint is there and stays until the savepoint is dropped. Taking it
    again, of the same tick, is fine.
    """
    file, manifests = _file(name), Manifests(storage)
    manifest = manifests.head() if tick is None else _kept(manifests, tick)
    if manifest is None:
        raise StateError(f"There is no state in {storage.url} yet.", fix="Run the flow first; a tick makes state.")
    made = storage.create(file, manifest.to_bytes())
    if not made and storage.read(file) != manifest.to_bytes():
        there = _read(storage, file).number
        raise StateError(
            f"There is a savepoint {name!r} already, of tick {there}.", fix="Give another name, or drop that one first."
        )
    try:
        if not storage.exists(manifest_file(manifest.number)):
            raise MissingFile(
                f"Tick {manifest.number} was cleaned up while the savepoint {name!r} was taken.",
                fix="Take it again, of a younger tick.",
            )
        verify(storage, manifest)
    except BaseException:
        if made:
            storage.delete([file])
        raise
    return Savepoint(name=name, manifest=manifest)


def _kept(manifests: Manifests, tick: int) -> Manifest:
    try:
        return manifests.at(tick)
    except MissingFile as error:
        numbers = manifests.numbers()
        kept = f"ticks {numbers[0]} to {numbers[-1]} are kept" if numbers else "there is no tick yet"
        raise StateError(
            f"Tick {tick} is not kept in {manifests.storage.url}.", fix=f"Take another: {kept}."
        ) from error


def savepoints(storage: Storage) -> list[Savepoint]:
    """All savepoints, by name; StateError names one whose file is damaged."""
    found = []
    for file in storage.names(SAVEPOINTS):
        name = file.removeprefix(SAVEPOINTS).removesuffix(".json")
        if _NAME.fullmatch(name) and (manifest := _if_there(storage, file)) is not None:
            found.append(Savepoint(name=name, manifest=manifest))
    return found


def savepoint(storage: Storage, name: str) -> Savepoint:
    """The savepoint of a name; StateError says which there are."""
    try:
        return Savepoint(name=name, manifest=_read(storage, _file(name)))
    except MissingFile as error:
        known = [each.name for each in savepoints(storage)]
        raise StateError(f"There is no savepoint {name!r} in {storage.url}.", fix=did_you_mean(name, known)) from error


def drop(storage: Storage, name: str) -> None:
    """Forget a savepoint; clean-up then takes the files that nobody else needs."""
    savepoint(storage, name)
    storage.delete([_file(name)])


def restore(storage: Storage, name: str, into: Storage | None = None, *, flow: str | None = None) -> Manifest:
    """Begin a new incarnation from a savepoint; its first manifest is committed and given back.

    In the same storage this goes back: the next tick has the savepoint's state, and the ticks between stay only as long
    as clean-up keeps them. Into another, empty storage it is a fork, which copies all it needs and outlives the
    original; give it the name of another `flow` if both are to run.

    What the savepoint's ticks have for sinks was published by the incarnation that made them. Only what the head says is
    perhaps not yet published is still pending after going back; after a fork nothing is.
    """
    if into is None:
        if flow not in (None, (kept := savepoint(storage, name).manifest).flow):
            raise StateError(
                f"Going back cannot make the flow {kept.flow!r} into {flow!r}.",
                fix="Fork the savepoint into a folder without state, under the new name.",
            )
        with going_back(storage, name) as first:
            Manifests(storage).commit(first)
        return first
    kept = savepoint(storage, name).manifest
    fresh = _restored(kept, name, incarnation=secrets.token_hex(8))
    nothing = {sink: SinkRecord(digest=_NOTHING) for sink in kept.sinks}
    return _fork(storage, into, replace(fresh, sinks=nothing, flow=kept.flow if flow is None else flow))


@contextmanager
def going_back(storage: Storage, name: str) -> Iterator[Manifest]:
    """The manifest that goes back to a savepoint, for the caller to commit within; until then nothing has changed.

    Law: all that it needs stays. While the head is the same it has the same incarnation, which sinks may know by now.
    """
    pin, kept, head = _file(name), savepoint(storage, name).manifest, Manifests(storage).head()
    number, parent = (kept.number, None) if head is None else (head.number + 1, head.digest)
    # A pin of its own, because the savepoint may be dropped while this goes on.
    own = f"{SAVEPOINTS}.restoring-{number:012}-{secrets.token_hex(8)}.json"
    storage.create(own, kept.to_bytes())
    try:
        _read(storage, pin)
        verify(storage, kept)
        fresh = _restored(kept, name, incarnation=digest_of(f"{parent} {kept.digest}".encode())[:16])
        sinks = {sink: _unpublished(record, sink, kept, head) for sink, record in kept.sinks.items()}
        yield replace(fresh, tick=replace(kept.tick, number=number), parent=parent, sinks=sinks)
    finally:
        storage.delete([own])


def _restored(kept: Manifest, name: str, *, incarnation: str) -> Manifest:
    told = {"savepoint": name, "tick": kept.number, "incarnation": kept.incarnation}
    return replace(kept, incarnation=incarnation, run="restore", journal={"restored": told})


def pins(storage: Storage) -> list[Manifest]:
    """Every manifest that is kept beside the chain, those of restores under way too."""
    while True:  # until none of them vanished between being listed and being read: what replaces it may be new
        found = [_if_there(storage, file) for file in storage.names(SAVEPOINTS)]
        if None not in found:
            return [manifest for manifest in found if manifest is not None]


def left_by_restores(names: Iterable[str], head: int) -> list[str]:
    """Of the names of pins, those of restores that are over: the tick that they were to commit is there."""
    return [name for name in names if (match := _RESTORING.fullmatch(name)) and int(match[1]) <= head]


def _unpublished(record: SinkRecord, sink: str, kept: Manifest, head: Manifest | None) -> SinkRecord:
    """What of a savepoint's rows for a sink the head says is perhaps not yet published."""
    there = {} if head is None else {(p.tick, p.digest) for p in _waiting(head, sink)}
    waiting = (p for p in _waiting(kept, sink) if head is None or (p.tick, p.digest) in there)
    pending = tuple(replace(p, after=None) for p in waiting)  # what was before them was of another incarnation
    return SinkRecord(digest=_NOTHING, pending=pending)


def _waiting(manifest: Manifest, sink: str) -> tuple[PendingTick, ...]:
    record = manifest.sinks.get(sink, SinkRecord())
    if not record.outputs:
        return record.pending
    now = int(manifest.tick.now)
    own = PendingTick(tick=manifest.number, now=now, outputs=record.outputs, digest=record.digest)
    return (*record.pending, own)


def _fork(storage: Storage, into: Storage, fresh: Manifest) -> Manifest:
    manifests = Manifests(into)
    if manifests.head() is not None:
        raise StateError(f"There is state in {into.url} already.", fix="Fork into a folder that has none.")
    verify(storage, fresh)
    for file in [*sorted(fresh.files()), *storage.names(SOURCES)]:
        data = storage.open(file)
        if not into.create(file, [data]) and digest_of(into.open(file)) != digest_of(data):
            raise StateError(f"There is another file {file!r} in {into.url}.", fix="Fork into an empty folder.")
    first = replace(fresh, parent=None)
    manifests.commit(first)
    return first


_NOTHING: Final = digest_of(b"")


def _file(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise StateError(
            f"A savepoint cannot be called {name!r}.",
            fix="Use up to 100 letters, digits, '_', '-' and '.', a letter or digit first.",
        )
    return f"{SAVEPOINTS}{name}.json"


def _read(storage: Storage, file: str) -> Manifest:
    return Manifest.from_bytes(storage.read(file), f"The file {file!r}")


def _if_there(storage: Storage, file: str) -> Manifest | None:
    try:
        return _read(storage, file)
    except MissingFile:  # dropped since it was listed
        return None

"""Whose folder it is, and what the files in it are: the small file `_strandline/owner.json` of every file sink.

It says which flow, sink and incarnation write here, and in which format, layout and columns, so that a reader needs only
the path, and a second writer is refused before it starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from strandline.errors import MissingFile, SinkError, StateError
from strandline.model.types import Schema, Type
from strandline.sinks.contract import ACKNOWLEDGE, Target
from strandline.store.storage import Storage

OWNER: Final = "_strandline/owner.json"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who writes into a folder, and how.

    Law: Owner.from_bytes(owner.to_bytes()) == owner.
    """

    flow: str
    sink: str
    incarnation: str
    format: str
    layout: str
    rows: str
    schema: Schema

    @property
    def tag(self) -> str:
        """A few letters that stand for flow, sink and incarnation in the names of files."""
        return short_digest(json.dumps([self.flow, self.sink, self.incarnation]))[:8]

    def to_bytes(self) -> bytes:
        """As JSON."""
        columns = [[name, _type_to_json(kind)] for name, kind in self.schema.columns]
        about = {name: getattr(self, name) for name in _TEXTS}
        return json.dumps({"version": VERSION, **about, "schema": columns}, indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes, place: str) -> Owner:
        """Read what `to_bytes` wrote; SinkError if it is something else."""
        try:
            said = json.loads(data)
            if said["version"] != VERSION:
                raise SinkError(
                    f"The files in {place} were written in version {said['version']} of their layout; this release knows "
                    f"version {VERSION}.",
                    fix="Use the release that wrote them, or write to a new folder.",
                )
            columns = tuple((name, _type_of_json(kind)) for name, kind in said["schema"])
            return cls(**{name: str(said[name]) for name in _TEXTS}, schema=Schema(columns))
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"{OWNER} in {place} cannot be read: {error!r}.",
                fix="Restore it from a copy, or write to a new folder.",
            ) from error


_TEXTS: Final = ("flow", "sink", "incarnation", "format", "layout", "rows")


def claim(storage: Storage, owner: Owner, target: Target) -> None:
    """Make the folder this sink's, or find that it is; SinkError if it is another's, or holds other files."""
    before = owner_of(storage)
    if before is None:
        if storage.create(OWNER, owner.to_bytes()):
            return
        before = owner_of(storage) or owner
    for name in ("format", "layout", "rows", "schema"):
        was, now = getattr(before, name), getattr(owner, name)
        if was != now:
            was, now = (each.text if isinstance(each, Schema) else repr(each) for each in (was, now))
            raise SinkError(
                f"The folder {storage.url} holds files with {name} {was}; {target} would write {name} {now}.",
                fix="Write to a new folder; a folder holds files of one kind.",
            )
    if before == owner:
        return
    if not target.acknowledged:
        raise _anothers(storage, before, target)
    storage.replace(OWNER, owner.to_bytes())


def require_own(storage: Storage, owner: Owner, target: Target) -> None:
    """SinkError if another incarnation has taken the folder over since it was claimed, or it was emptied."""
    now = owner_of(storage)
    if now is None:
        raise SinkError(
            f"{OWNER} is gone from {storage.url}, the folder of {target}.",
            fix="Put the folder back as it was, or write to a new one.",
        )
    if now != owner:
        raise _anothers(storage, now, target)


def _anothers(storage: Storage, owner: Owner, target: Target) -> SinkError:
    return SinkError(
        f"The folder {storage.url} holds files of another incarnation: of the sink {owner.sink!r} of the flow "
        f"{owner.flow!r}, incarnation {owner.incarnation!r}; this is {target}, incarnation {target.incarnation!r}.",
        fix=f"Write to a new folder; or {ACKNOWLEDGE}: the files there stay, and new ones are added to them.",
    )


def owner_of(storage: Storage) -> Owner | None:
    """Whose folder it is; None if no sink ever wrote there."""
    try:
        return Owner.from_bytes(storage.read(OWNER), storage.url)
    except MissingFile:
        return None


def required_owner(storage: Storage) -> Owner:
    """Whose folder it is, for a reader."""
    owner = owner_of(storage)
    if owner is None:
        raise SinkError(
            f"No file sink has written to {storage.url}.",
            fix="Give the path that the sink was given, or run the flow first.",
        )
    return owner


@contextmanager
def told(target: Target) -> Iterator[None]:
    """What the storage says, said of the sink."""
    try:
        yield
    except StateError as error:
        raise SinkError(f"The files of {target} could not be written: {error.what}", fix=error.fix) from error


def short_digest(text: str) -> str:
    """Sixteen letters that stand for a text in the name of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _type_to_json(type: Type) -> Any:
    """Not Spark's text: names of fields may hold anything."""
    return {name: value for name, value in asdict(type).items() if value}


def _type_of_json(said: dict[str, Any]) -> Type:
    plain = Type(name=said["name"], precision=said.get("precision", 0), scale=said.get("scale", 0))
    element = said.get("element")
    fields = tuple((name, _type_of_json(kind)) for name, kind in said.get("fields", ()))
    return replace(plain, element=None if element is None else _type_of_json(element), fields=fields)

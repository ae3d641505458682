"""A place for files that are written once: a folder on this machine, or a prefix in an object store.

Everything the store promises rests on `create`: durable when it returns, there whole or not at all, and refused when the
name is taken. Names are relative and '/'-separated; the same storage may be pickled and used in a worker.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa

from strandline.errors import StorageError
from strandline.model.time import Instant

Buffers: TypeAlias = bytes | Sequence[bytes | memoryview | pa.Buffer]

TEMPORARY = ".tmp-"
OBJECT_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


class Storage(Protocol):
    """Files by name. Laws: a file that is read was written whole; of two that create one name, one is told False."""

    @property
    def url(self) -> str:
        """Where it is; equal urls are the same place."""

    def create(self, name: str, data: Buffers, *, durable: bool = True) -> bool:
        """Write a new file, durably and atomically. False, and nothing has changed, if the name exists.

        `durable=False` is for what nobody asks for after a power failure.
        """

    def replace(self, name: str, data: Buffers) -> None:
        """Write a file, durably and atomically, over what was there: for small control files."""

    def read(self, name: str) -> bytes:
        """The whole file; MissingFile names it when it is not there."""

    def open(self, name: str) -> pa.Buffer:
        """The whole file, memory-mapped: what is not looked at is not read. For files that never change."""

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with `prefix`, sorted; never those of temporary files."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def size(self, name: str) -> int:
        """How many bytes it has; MissingFile names it when it is not there."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, durably; those that are not there are fine."""

    def within(self, folder: str) -> Storage:
        """The storage of a folder in this one."""

    def sweep(self, before: Instant) -> int:
        """Remove what writers that died before then left half-written; say how many files it were."""


def storage_at(place: str | os.PathLike[str]) -> Storage:
    """The storage at a path, or at a url that begins with file://, s3://, gs:// or az://.

    >>> storage_at("ftp://somewhere/state")
    Traceback (most recent call last):
        ...
    strandline.errors.StorageError: State cannot be kept at 'ftp://somewhere/state'.
      fix: Give a path, or a url that begins with file://, s3://, gs:// or az:// and goes on with a bucket.
    """
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else ""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", text)
    scheme = match[1].lower() if match else ""
    if scheme in OBJECT_SCHEMES and text[len(scheme) + 3 :].strip("/"):
        from strandline.store.objects import ObjectStorage

        return ObjectStorage(text.rstrip("/"))
    if scheme not in {"", "file"} or not text.strip() or "\0" in text:
        raise StorageError(
            f"State cannot be kept at {place!r}.",
            fix="Give a path, or a url that begins with file://, s3://, gs:// or az:// and goes on with a bucket.",
        )
    from strandline.store.local import LocalStorage

    if not scheme:
        return LocalStorage(text)
    parts = urlsplit(text)
    if parts.netloc not in {"", "localhost"}:
        raise StorageError(
            f"{text!r} names {parts.netloc!r} as a host; files of this machine have none.",
            fix=f"Give a path, such as {parts.netloc}{parts.path}, or a url with three slashes: file:///folder.",
        )
    return LocalStorage(unquote(parts.path))


def checked_name(name: str) -> str:
    """The name, if it can be that of a file here.

    >>> checked_name("../elsewhere")
    Traceback (most recent call last):
        ...
    strandline.errors.StorageError: A file of the state cannot be called '../elsewhere'.
      fix: Use relative names without empty parts, '.', '..', backslashes or parts that begin with '.tmp-'.
    """
    parts = name.split("/")
    bad = any(part in {"", ".", ".."} or part.startswith(TEMPORARY) for part in parts)
    if bad or "\\" in name or "\0" in name:
        raise StorageError(
            f"A file of the state cannot be called {name!r}.",
            fix="Use relative names without empty parts, '.', '..', backslashes or parts that begin with '.tmp-'.",
        )
    return name


def folder_name(word: str) -> str:
    """Any word, such as a stage's name, as the name of one folder; different words get different ones.

    >>> folder_name("per minute/€"), folder_name("..")
    ('per%20minute%2F%E2%82%AC', '%2E%2E')
    """
    plain = quote(word, safe="")
    return plain.replace(".", "%2E") if plain.startswith(".") else plain or "%"


def buffers_of(data: Buffers) -> list[memoryview]:
    """The data as pieces of plain bytes."""
    pieces: Sequence[Any] = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    return [memoryview(piece).cast("B") for piece in pieces]


def digest_of(data: Buffers | pa.Buffer) -> str:
    """The SHA-256 of the bytes, as text.

    >>> digest_of(b"abc") == digest_of([b"a", b"bc"])
    True
    """
    found = hashlib.sha256()
    for piece in buffers_of([data] if isinstance(data, pa.Buffer) else data):
        found.update(piece)
    return found.hexdigest()

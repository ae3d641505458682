"""State in an object store: S3, Google Cloud Storage, Azure. Needs the extra `objects`.

What `create` needs of the server is a conditional put; `probe` finds out at start-up whether it has that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from strandline.errors import MissingFile, StorageError
from strandline.model.time import Instant
from strandline.store.cache import Cache
from strandline.store.storage import Buffers, buffers_of, checked_name

_TRIES: Final = 6
_FIRST_WAIT: Final = 0.05  # seconds; then twice as long each time


@dataclass(frozen=True)
class ObjectStorage:
    """A prefix in a bucket. `options` go to the client as they are, such as `{"endpoint": "http://..."}`.

    Without options the client takes what the environment says: AWS_ACCESS_KEY_ID, AWS_ENDPOINT and so on.
    """

    url: str
    options: tuple[tuple[str, str], ...] = ()
    cache: Cache = field(default_factory=Cache, compare=False)

    def create(self, name: str, data: Buffers, *, durable: bool = True) -> bool:
        """Write a new file by a conditional put; False if the name exists."""
        whole = b"".join(buffers_of(data))
        lost = False  # whether an answer was: then the name may be taken by ourselves
        with self._told(name, "written"):
            for attempt in range(_TRIES):
                try:
                    self._once.put(checked_name(name), whole, mode="create", use_multipart=False)
                    return True
                except self._errors.AlreadyExistsError:
                    return lost and self.read(name) == whole
                except self._errors.GenericError:
                    lost = True
                    if attempt == _TRIES - 1:
                        raise
                time.sleep(_FIRST_WAIT * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def replace(self, name: str, data: Buffers) -> None:
        """Write a file over what was there."""
        with self._told(name, "written"):
            self._store.put(checked_name(name), b"".join(buffers_of(data)), use_multipart=False)

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._told(name, "read"):
            return bytes(self._store.get(checked_name(name)).bytes())

    def open(self, name: str) -> pa.Buffer:
        """The whole file, memory-mapped from the cache on this machine."""
        return self.cache.open(f"{self.url}/{name}", lambda: self.read(name))

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with `prefix`, sorted."""
        # A store lists whole folders only; what is left of the prefix is looked at here.
        folder = prefix.rpartition("/")[0]
        with self._told(prefix, "listed"):
            found = [each["path"] for some in self._store.list(folder or None) for each in some]
        return sorted(name for name in found if name.startswith(prefix))

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        try:
            self.size(name)
        except MissingFile:
            return False
        return True

    def size(self, name: str) -> int:
        """How many bytes it has."""
        with self._told(name, "read"):
            return int(self._store.head(checked_name(name))["size"])

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
        going = [checked_name(name) for name in names]
        with self._told(", ".join(going[:3]), "deleted"):
            try:
                if going:
                    self._store.delete(going)
                return
            except FileNotFoundError:  # some servers mind; which were removed is not said
                pass
            for name in going:
                if self.exists(name):
                    self._store.delete(name)

    def within(self, folder: str) -> ObjectStorage:
        """The storage of a folder in this one."""
        return ObjectStorage(f"{self.url}/{checked_name(folder)}", self.options, self.cache)

    def sweep(self, before: Instant) -> int:
        """Nothing: a put is there whole or not at all, and leaves nothing behind."""
        return 0

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "options": self.options, "cache": self.cache}  # clients do not travel

    @cached_property
    def _store(self) -> Any:
        return self._client({})

    @cached_property
    def _once(self) -> Any:
        """The same without retries of its own: who retries must know that the first try may have succeeded."""
        return self._client({"max_retries": 0})

    @cached_property
    def _errors(self) -> Any:
        from obstore import exceptions

        return exceptions

    def _client(self, retries: dict[str, Any]) -> Any:
        try:
            from obstore import store
        except ImportError as error:
            raise StorageError(
                f"State at {self.url} needs the package obstore.", fix="Install it: pip install 'strandline[objects]'."
            ) from error
        options: dict[str, Any] = dict(self.options)
        clients = {"allow_http": True} if options.get("endpoint", "").startswith("http://") else None
        try:
            make: Any = store.from_url  # typed for each kind of store apart
            return make(self.url, config=options or None, client_options=clients, retry_config=retries or None)
        except Exception as error:
            raise StorageError(
                f"The place {self.url} cannot be used: {_said(error)}.",
                fix="Mend the url, the options or the credentials.",
            ) from error

    @contextmanager
    def _told(self, name: str, done: str) -> Iterator[None]:
        """What the client says, said with the file's name and what to do."""
        _ = self._store  # first of all: without the package there are no errors to catch
        try:
            yield
        except FileNotFoundError as error:
            if done != "read":
                raise StorageError(
                    f"The place {self.url} is not there: {name!r} could not be {done}.",
                    fix="Make the bucket first, or mend the url.",
                ) from error
            raise MissingFile(
                f"The file {name!r} is not in {self.url}.",
                fix="Restore it from a copy, or start from an earlier tick or savepoint.",
            ) from error
        except (self._errors.PermissionDeniedError, self._errors.UnauthenticatedError, PermissionError) as error:
            raise StorageError(
                f"The file {name!r} in {self.url} could not be {done}: permission denied.",
                fix="Give the credentials in the environment, and let them read, write, list and delete there.",
            ) from error
        except (self._errors.BaseError, OSError) as error:
            raise StorageError(
                f"The file {name!r} in {self.url} could not be {done}: {_said(error)}.",
                fix="Look whether the server can be reached, and at the credentials in the environment; it can be tried again.",
            ) from error


def _said(error: BaseException) -> str:
    """What the client says: behind the first line it tells of its own insides."""
    return str(error).partition("\n")[0].rstrip(".")

"""State files that this process has open: workers are used again, and a tick should cost what it touches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Final

from strandline.kernel.codec import decode_with_about
from strandline.kernel.segments import Segment
from strandline.store.storage import Storage

MOST_FILES: Final = 4096
Place = tuple[str, str]  # a storage's url and a file's name


class OpenedFiles:
    """The files used last, with their segments, and what was made of them. Files never change, so neither does this.

    Law: what it gives is what the file has, or had when it was opened.
    """

    def __init__(self, most: int = MOST_FILES) -> None:
        self._most = most
        self._files: OrderedDict[Place, list[Segment]] = OrderedDict()
        self._made: dict[Place, dict[Hashable, Segment]] = {}
        self._lock = threading.Lock()

    def segments(self, storage: Storage, file: str) -> list[Segment]:
        """The segments of a file; StateError names the file if it is missing or damaged."""
        place = (storage.url, file)
        with self._lock:
            if place in self._files:
                self._files.move_to_end(place)
                return self._files[place]
        _, found = decode_with_about(storage.open(file), kind="state", name=file)
        with self._lock:
            self._files[place] = found
            while len(self._files) > self._most:
                self._drop(next(iter(self._files)))
        return found

    def made(self, storage: Storage, file: str, key: Hashable, make: Callable[[], Segment]) -> Segment:
        """What `make` gives for a file that is open, made once for each key."""
        place = (storage.url, file)
        with self._lock:
            found = self._made.get(place, {}).get(key)
        if found is None:
            found = make()
            with self._lock:
                if place in self._files:
                    self._made.setdefault(place, {})[key] = found
        return found

    def keep(self, storage: Storage, files: Collection[str]) -> None:
        """Of the folders of these files, keep open nothing else: a deleted file takes its space until it is closed."""
        folders = {file.rpartition("/")[0] for file in files}
        with self._lock:
            for url, file in [*self._files]:
                if url == storage.url and file not in files and file.rpartition("/")[0] in folders:
                    self._drop((url, file))

    def forget(self, storage: Storage) -> None:
        """Close all files of a storage: each is opened anew, and looked at again."""
        with self._lock:
            for place in [place for place in self._files if place[0] == storage.url]:
                self._drop(place)

    def _drop(self, place: Place) -> None:
        del self._files[place]
        self._made.pop(place, None)


OPENED: Final = OpenedFiles()

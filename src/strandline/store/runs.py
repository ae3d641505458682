"""The last runs of a flow: when each began, and how it ended. A run that died says nothing of its end.

The journal tells of ticks; a run that fails again and again before its first tick is seen here alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from strandline.errors import MissingFile, StorageError, StrandlineError, exception_in_words
from strandline.model.time import Instant
from strandline.store.storage import Storage

RUNS: Final = "runs/"
KEPT: Final = 100
LONGEST: Final = 500  # characters of what a run failed with


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """A run: when it began, and when it ended, if it did; `failure` is what ended it, empty if that was in good order.

    >>> RunNote(run="r", began=Instant(5)).ended is None
    True
    """

    run: str
    began: Instant
    ended: Instant | None = None
    failure: str = ""

    @property
    def file(self) -> str:
        """Its file: they are in order of their begin."""
        return f"{RUNS}{int(self.began):017}-{self.run}.json"


def note_begin(storage: Storage, run: str, now: Instant) -> RunNote:
    """Write down that a run has begun; runs before the last hundred are forgotten."""
    note = RunNote(run=run, began=now)
    _write(storage, note)
    storage.delete(storage.names(RUNS)[:-KEPT])
    return note


def note_end(storage: Storage, note: RunNote, now: Instant, failure: BaseException | None) -> None:
    """Write down how a run has ended."""
    _write(storage, replace(note, ended=now, failure="" if failure is None else _told(failure)))


def _told(failure: BaseException) -> str:
    """What a run failed with, in a line; errors of ours say it in their own words.

    >>> _told(KeyError("shop"))
    "KeyError: 'shop'"
    """
    what = failure.what if isinstance(failure, StrandlineError) else exception_in_words(failure)
    return " ".join(what.split())[:LONGEST]


def run_notes(storage: Storage, *, count: int = KEPT) -> list[RunNote]:
    """The last runs, the newest last.

    >>> import tempfile
    >>> from strandline.store.storage import storage_at
    >>> storage = storage_at(tempfile.mkdtemp())
    >>> note = note_begin(storage, "r", Instant(5))
    >>> note_end(storage, note, Instant(7), ValueError("no"))
    >>> [(each.run, each.failure) for each in run_notes(storage)]
    [('r', 'ValueError: no')]
    """
    return list(_read(storage, storage.names(RUNS)[-count:]))


def _write(storage: Storage, note: RunNote) -> None:
    storage.replace(note.file, json.dumps(asdict(note)).encode())


def _read(storage: Storage, names: list[str]) -> Iterator[RunNote]:
    for name in names:
        try:
            told: dict[str, Any] = json.loads(storage.read(name))
        except (
            MissingFile,
            StorageError,
            ValueError,
        ):  # forgotten meanwhile, or damaged: it only tells people something
            continue
        ended = None if told["ended"] is None else Instant(told["ended"])
        yield RunNote(run=told["run"], began=Instant(told["began"]), ended=ended, failure=told["failure"])

"""Look at a flow from outside: all that health needs to know is read from its state."""

from __future__ import annotations

import shutil

from strandline.errors import StateError
from strandline.model.time import Instant
from strandline.operations.health.watched import NORM, Watched, no_tick
from strandline.store.journal import records_back_to
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifests
from strandline.store.runs import run_notes
from strandline.store.storage import Storage


def look(storage: Storage, at: Instant) -> Watched:
    """What the state tells of the flow's last while and of its norm, seen at this time of the clock.

    >>> from strandline.store.storage import storage_at
    >>> look(storage_at("/nowhere"), Instant(0))
    Traceback (most recent call last):
        ...
    strandline.errors.StateError: There is no state in file:///nowhere.
      fix: Give the folder that the flow is run with.
    """
    found, runs, committed = records_back_to(storage, NORM), run_notes(storage), Manifests(storage).numbers()
    if not (found or runs or committed):
        raise StateError(f"There is no state in {storage.url}.", fix="Give the folder that the flow is run with.")
    began = runs[-1].began if runs else at
    free = shutil.disk_usage(storage.root).free if isinstance(storage, LocalStorage) else None
    return Watched(
        records=found or [no_tick(began)], at=at, runs=runs, committed=committed[-1] if committed else None, free=free
    )

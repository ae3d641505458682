"""What a run that ended well leaves for the next: the last delivery that each sink has had.

Sinks that keep a marker of their own need no such note. For those that cannot, as a function of the user's, it tells a
clean stop from a crash: without it they would get the last tick again at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.errors import StateError
from strandline.sinks.contract import Marker
from strandline.store.sealed import seal, unsealed
from strandline.store.storage import Storage

_FILE: Final = "ended"
_VERSION: Final = 1


def leave_note(storage: Storage, markers: Mapping[str, Marker]) -> None:
    """Write down the last delivery to each sink. It stays true when later runs deliver more."""
    told = {name: [marker.incarnation, marker.tick, marker.digest] for name, marker in markers.items()}
    storage.replace(_FILE, seal(told, version=_VERSION))


def noted(storage: Storage, incarnation: str) -> dict[str, Marker]:
    """What the last run that ended well wrote down, as far as it is of this incarnation; a damaged note says nothing."""
    try:
        told = unsealed(storage.read(_FILE), f"The note {_FILE} in {storage.url}", version=_VERSION)
    except StateError:
        return {}
    markers = {name: Marker(incarnation=i, tick=tick, digest=digest) for name, (i, tick, digest) in told.items()}
    return {name: marker for name, marker in markers.items() if marker.incarnation == incarnation}

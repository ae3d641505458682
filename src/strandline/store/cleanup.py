"""Remove what nobody needs any more: files of ticks that failed, superseded files, old manifests, staging.

A pass looks in this order, and each look protects what it finds: which files and manifests there are; the pins; the
manifests, again. A manifest that is too old is removed at the end of a pass, and the files that only it named in a later
one. A savepoint is pinned first and then makes sure that its manifest is still in the chain; so either the pass sees the
pin, or it sees the manifest.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import MissingFile, StateError
from strandline.model.time import Instant, Span
from strandline.store.layout import MANIFESTS, OUTPUTS, SAVEPOINTS, STAGING, STATE, manifest_file, tick_of
from strandline.store.manifests import Manifests
from strandline.store.savepoints import left_by_restores, pins
from strandline.store.storage import Storage

KEEP: Final = 10
ABANDONED: Final = Span.of("1h")  # a temporary file that nobody wrote to for so long has no writer


def garbage(storage: Storage, keep: int = KEEP) -> list[str]:
    """The names of the files that can go, in the order in which they may.

    A file of tick t is garbage if tick t is committed and no manifest, savepoint or restore names it; staging is, once
    its tick is committed. Manifests older than the last `keep` are.

    Law: nothing that the head or a savepoint names is garbage, whatever is committed, taken or dropped meanwhile.
    """
    if keep < 2:
        raise StateError(f"Clean-up cannot keep {keep} manifests.", fix="Keep 2 at least: the head and its parent.")
    manifests = Manifests(storage)
    numbers = manifests.numbers()
    listed = [name for folder in (STATE, OUTPUTS, STAGING) for name in storage.names(folder)]
    pinned = storage.names(SAVEPOINTS)
    try:
        needed = {file for pin in pins(storage) for file in pin.files()}
        again = manifests.numbers()
        if not numbers or not again:
            return []
        for number in sorted({*numbers, *again}):
            needed |= manifests.at(number).files()
    except MissingFile:
        return []  # somebody else is cleaning up
    head = again[-1]
    data = [name for name in listed if (tick := tick_of(name)) is not None and tick <= head and name not in needed]
    return [*data, *left_by_restores(pinned, head), *(manifest_file(number) for number in numbers[:-keep])]


def clean(storage: Storage, keep: int = KEEP, *, now: Instant) -> list[str]:
    """Remove what can go; say what went. A crash at any point leaves the rest for the next pass."""
    going = garbage(storage, keep)
    old = [name for name in going if name.startswith(MANIFESTS)]
    storage.delete(name for name in going if not name.startswith(MANIFESTS))
    for name in old:  # one after the other, the oldest first: a power failure may not leave a gap
        storage.delete([name])
    storage.sweep(Instant(now - ABANDONED))
    return going

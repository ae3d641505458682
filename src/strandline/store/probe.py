"""Find out at start-up whether a place can keep state."""

from __future__ import annotations

import secrets

from strandline.errors import StorageError
from strandline.store.storage import Storage


def probe(storage: Storage) -> None:
    """Write, read and remove a small file; StorageError when the place cannot do what state rests on.

    Without a create that is refused when the name exists, two runs could both believe that they own a flow.

    >>> import tempfile
    >>> from strandline.store.storage import storage_at
    >>> probe(storage_at(tempfile.mkdtemp()))
    """
    name = f"probe/{secrets.token_hex(8)}"
    try:
        first, second = storage.create(name, b"first"), storage.create(name, b"second")
        there = storage.read(name)
    finally:
        storage.delete([name])
    if not first or second or there != b"first":
        raise StorageError(
            f"The server at {storage.url} ignores conditional create: it wrote over a file that was there.",
            fix="Use a server that honours 'If-None-Match: *' (S3, GCS, Azure and recent MinIO do), or a local folder.",
        )

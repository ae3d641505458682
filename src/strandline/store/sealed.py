"""Small JSON files with a version and a checksum: manifests, logs. What is read back is what was written, or an error."""

from __future__ import annotations

import json
import zlib
from typing import Any

from strandline.errors import StateError, StrandlineError


def seal(body: Any, *, version: int) -> bytes:
    """The body as JSON, with its version and checksum; equal bodies give equal bytes.

    >>> unsealed(seal({"n": 1}, version=3), "a.json", version=3)
    {'n': 1}
    """
    said = _json(body)
    return b'{"version":%d,"checksum":%d,"body":%s}\n' % (version, zlib.crc32(said), said)


def unsealed(data: bytes, name: str, *, version: int, error: type[StrandlineError] = StateError) -> Any:
    """What `seal` was given; the error names the file that is damaged, or of another version."""
    try:
        whole = json.loads(data)
        found, checksum, body = whole["version"], whole["checksum"], whole["body"]
    except (ValueError, KeyError, TypeError) as why:
        raise _damaged(error, f"{name} cannot be read, or a part of it is missing") from why
    if found != version:
        raise error(
            f"{name} has version {found!r}; this Strandline reads version {version}.",
            fix="Use the version of Strandline that wrote it, or a newer one.",
        )
    if zlib.crc32(_json(body)) != checksum:
        raise _damaged(error, f"{name} does not have the checksum it was written with")
    return body


def _damaged(error: type[StrandlineError], what: str) -> StrandlineError:
    return error(f"{what}: it is damaged.", fix="Restore the file from a copy, or start from an earlier savepoint.")


def _json(value: Any) -> bytes:
    # As ASCII: names of files need not be text that can be encoded.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

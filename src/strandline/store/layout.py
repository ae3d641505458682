"""What the files of a flow's state are called. Names of data carry their tick and a random part: none is used twice.

```
manifests/000000000042.json                one per tick: the chain of them is the checkpoint
savepoints/<name>.json                     manifests that are kept
state/<stage>/000000000042-<random>.seg    segments
outputs/<sink>/000000000042-<random>.arrow rows to be published
staging/000000000042-<random>...           of use within one tick only
sources/<name>/...                         a source's own
journal/000000000042.json                  what a tick did
runs/<microseconds>-<run>.json             when a run began, and how it ended
```
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from strandline.store.storage import folder_name

MANIFESTS: Final = "manifests/"
SAVEPOINTS: Final = "savepoints/"
STATE: Final = "state/"
OUTPUTS: Final = "outputs/"
STAGING: Final = "staging/"
SOURCES: Final = "sources/"

_OF_A_TICK: Final = re.compile(r"(?:state/[^/]+/|outputs/[^/]+/|staging/)(\d{12})-")


def manifest_file(tick: int) -> str:
    """The name of a tick's manifest.

    >>> manifest_file(42)
    'manifests/000000000042.json'
    """
    return f"{MANIFESTS}{tick:012}.json"


def state_file(stage: str, tick: int) -> str:
    """A new name for a file of a stage's state."""
    return f"{STATE}{folder_name(stage)}/{tick:012}-{secrets.token_hex(8)}.seg"


def output_file(sink: str, tick: int) -> str:
    """A new name for a file of rows for a sink."""
    return f"{OUTPUTS}{folder_name(sink)}/{tick:012}-{secrets.token_hex(8)}.arrow"


def staging_file(tick: int, ending: str = "") -> str:
    """A new name for a file that only the work on one tick needs."""
    return f"{STAGING}{tick:012}-{secrets.token_hex(8)}{ending}"


def source_folder(source: str) -> str:
    """The folder in which a source keeps its own."""
    return SOURCES + folder_name(source)


def tick_of(name: str) -> int | None:
    """The tick that a file of state, output or staging belongs to; None for any other file.

    >>> tick_of("state/per_minute/000000000042-5f3a.seg"), tick_of("sources/orders/000000000001-5f3a.seg")
    (42, None)
    """
    match = _OF_A_TICK.match(name)
    return int(match[1]) if match else None

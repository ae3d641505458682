"""What travels to Spark's processes in options, as text. Users' classes travel by value."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

if TYPE_CHECKING:
    from strandline.sources.contract import Reader


def to_text(thing: object) -> str:
    """Anything that can be pickled, as text."""
    return base64.b64encode(cloudpickle.dumps(thing)).decode()  # type: ignore[no-untyped-call]


def from_text(text: str) -> Any:
    """What was written as this text."""
    return cloudpickle.loads(base64.b64decode(text))


@lru_cache(maxsize=8)
def readers_of(text: str) -> Mapping[str, Reader]:
    """The readers in a text, opened once in this process, which only plans: it imports what they need, and no kernel."""
    readers: Mapping[str, Reader] = from_text(text)
    return readers

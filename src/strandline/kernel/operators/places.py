"""Places: where the rows of a key go when one bucket would be too little for a key with many rows.

The rows of one port are spread over the places, by a hash of all that they say; those of the other are copied to each
place, so that every pair meets in exactly one. A place is a stretch of the hash, and holds every key in the order of its
own hash: whoever steps a stretch of buckets has whole places, or keys of one, and need not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from strandline.kernel.frames import changed, only
from strandline.kernel.hashing import hash_columns
from strandline.model.panes import TIME
from strandline.model.types import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """So many places, a power of two; `spread` is the port whose rows are spread, by these columns.

    Law: a row of the spread port is in one place, and every row of the other port is there too, once.
    """

    count: int
    spread: int
    columns: tuple[str, ...]

    @classmethod
    def over(cls, count: int, spread: int, schema: Schema) -> Places:
        """Places over which rows with these columns are spread: by those that can be hashed, and by time."""
        scalar = (name for name, kind in schema.columns if kind.is_scalar)
        return cls(count=count, spread=spread, columns=(*scalar, TIME))

    @property
    def bits(self) -> int:
        """How many bits of a hash say the place."""
        return self.count.bit_length() - 1

    def sent(self, port: int, rows: pl.DataFrame, hashed: str) -> pl.DataFrame:
        """Rows with the hash of their key in the column `hashed`, each with that of its place; copied, if they must be."""
        hashes: Words = rows[hashed].to_numpy()
        if port == self.spread:
            found = hash_columns(only(rows, self.columns))
            return changed(rows, {hashed: in_place(found >> np.uint64(64 - self.bits), hashes, self.bits)})
        places = np.repeat(np.arange(self.count, dtype=np.uint64), rows.height)
        copied = rows[np.tile(np.arange(rows.height), self.count)]
        return changed(copied, {hashed: in_place(places, np.tile(hashes, self.count), self.bits)})

    def are_copies(self, port: int, hashes: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows are copies of others: all but those of the first place, at the port whose rows are copied."""
        return np.asarray((hashes >> np.uint64(64 - self.bits) != 0) & (port != self.spread))


def in_place(places: Words, hashes: Words, bits: int) -> Words:
    """The hashes of keys, squeezed into the stretches of their places: the first bits say which.

    >>> [hex(each) for each in in_place(np.array([1, 3], np.uint64), np.array([0xFF << 56, 8], np.uint64), 2)]
    ['0x7fc0000000000000', '0xc000000000000002']
    """
    found: Words = (places << np.uint64(64 - bits)) | (hashes >> np.uint64(bits))
    return found

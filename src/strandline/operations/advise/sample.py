"""A sample of events, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strandline.errors import DataError

Times = NDArray[np.int64]
"""Instants, or spans, in whole microseconds."""

MOST_PARTITIONS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Events in the order in which they arrived. `partitions` has for each the place of its partition in `names`.

    `arrivals` is None where only the order is known; `keys` has the columns of the key, or none. `rejected` rows had
    no time, or could not be read; `cut` says that there were more events than were taken.
    """

    times: Times
    partitions: NDArray[np.int64]
    names: tuple[str, ...]
    arrivals: Times | None = None
    keys: pl.DataFrame | None = None
    rejected: int = 0
    cut: bool = False

    @classmethod
    def of(
        cls,
        times: Times,
        *,
        arrivals: Times | None = None,
        partitions: Sequence[object] | pl.Series | None = None,
        keys: pl.DataFrame | None = None,
        rejected: int = 0,
        cut: bool = False,
    ) -> Sample:
        """Put events into the order of their arrival; those that arrived together stay in the order they have.

        >>> Sample.of(np.array([30, 10, 20]), arrivals=np.array([32, 31, 33])).times
        array([10, 30, 20])
        """
        if not len(times):
            raise DataError("There are no events with a time.", fix="Give a sample with events, and their time column.")
        order = slice(None) if arrivals is None else np.argsort(arrivals, kind="stable")
        told = pl.Series(["0"] * len(times) if partitions is None else partitions).cast(pl.String).fill_null("null")
        names = tuple(told.unique().sort())
        if len(names) > MOST_PARTITIONS:
            raise DataError(
                f"The events are of {len(names):,} partitions: each would have a watermark of its own.",
                fix=f"Name a column with at most {MOST_PARTITIONS:,} values; --key is for others.",
            )
        places = told.replace_strict({name: place for place, name in enumerate(names)}, return_dtype=pl.Int64)
        return cls(
            times=times[order], arrivals=None if arrivals is None else arrivals[order],
            partitions=places.to_numpy()[order], names=names, rejected=rejected, cut=cut,
            keys=None if keys is None else keys[order],
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.times)

    def of_each_partition(self) -> list[NDArray[np.intp]]:
        """Where the events of each partition stand, in order.

        >>> [found.tolist() for found in Sample.of(np.array([5, 6, 7]), partitions=["b", "a", "b"]).of_each_partition()]
        [[1], [0, 2]]
        """
        order = np.argsort(self.partitions, kind="stable")
        return np.split(order, np.searchsorted(self.partitions[order], np.arange(1, len(self.names))))

"""Which rows of a group lie in a span of time: a binary search for all groups at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strandline.kernel.order import sorted_unique

Array = npt.NDArray[Any]

GREATEST: Final = 2**62


def ranges(groups: Array, times: Array, asked: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """For each asked group the rows with low <= time <= high: where they begin, and how many they are.

    The rows stand by group, and within a group by time.

    >>> groups, times = np.array([0, 0, 1]), np.array([10, 20, 10])
    >>> ranges(groups, times, np.array([0, 1, 2]), np.array([15, 0, 0]), np.array([99, 99, 99]))
    (array([1, 2, 3]), array([1, 1, 0]))
    """
    if not len(times) or not len(asked):
        return np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64)
    least, width = int(times.min()), int(times.max()) - int(times.min()) + 2
    if (max(int(groups[-1]), int(asked.max())) + 1) * width >= GREATEST:
        # Times that lie too far apart are told by their place among all times.
        known = sorted_unique(times)
        times, low, high = (
            known.searchsorted(times),
            known.searchsorted(low, "left"),
            known.searchsorted(high, "right") - 1,
        )
        least, width = 0, len(known) + 1
    # A group and a time become one number.
    places = groups * width + (times - least)
    first = places.searchsorted(asked * width + (np.clip(low, least, least + width - 1) - least), "left")
    last = places.searchsorted(asked * width + (np.clip(high, least - 1, least + width - 2) + 1 - least), "left")
    return first, np.maximum(last - first, 0)


def spread(first: Array, counts: Array) -> tuple[Array, Array]:
    """Ranges written out: for each the number of the range, and each place in it.

    >>> spread(np.array([5, 0]), np.array([2, 1]))
    (array([0, 0, 1]), array([5, 6, 0]))
    """
    which = np.repeat(np.arange(len(first)), counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) - before[which] + first[which]

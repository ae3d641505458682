"""Shares: the buckets of a flow, in as many stretches as there are tasks in this tick."""

from __future__ import annotations

from itertools import pairwise

from strandline.kernel.hashing import hash_range

Share = tuple[int, int]
"""The least and the greatest hash of a stretch of buckets, both included."""


def shares(buckets: int, wanted: int) -> list[Share]:
    """All hashes in as many stretches of whole buckets as wanted, but not more than there are buckets.

    Law: every hash is in exactly one share, and shares stand in the order of their hashes.

    >>> [(least >> 62, greatest >> 62) for least, greatest in shares(64, 2)]
    [(0, 1), (2, 3)]
    """
    count = max(1, min(wanted, buckets))
    cuts = [buckets * n // count for n in range(count + 1)]
    return [(hash_range(first, buckets)[0], hash_range(last - 1, buckets)[1]) for first, last in pairwise(cuts)]

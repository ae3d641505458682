"""How much each partition gives to a tick: what there is room for is spread evenly, and what one leaves goes to the others.

So a partition with a long backlog takes all that the others do not need, and cannot keep them waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.sources.contract import Limit


def spread(room: int, waiting: Sequence[int], first: int = 0) -> list[int]:
    """How much of what waits is taken, where all together may take `room`; what is left over goes by turns, from `first`.

    Law: together they take `room`, or all that waits if that is less; and nobody gets two more than one who wants more.

    >>> spread(10, [1, 100, 7, 0])
    [1, 5, 4, 0]
    >>> spread(2, [5, 5, 5], first=1)
    [0, 1, 1]
    """
    taken = [0] * len(waiting)
    open_ = [place for place, each in enumerate(waiting) if each]
    while open_ and room >= len(open_):
        share = room // len(open_)
        for place in open_:
            more = min(share, waiting[place] - taken[place])
            taken[place] += more
            room -= more
        open_ = [place for place in open_ if taken[place] < waiting[place]]
    start = next((at for at, place in enumerate(open_) if place >= first % max(1, len(waiting))), 0)
    for place in (open_[start:] + open_[:start])[:room]:
        taken[place] += 1
    return taken


def admitted(limit: Limit, waiting: Sequence[int], sizes: Sequence[float], first: int = 0) -> list[int]:
    """How many messages of each partition go into the next tick: at least one, if any waits.

    `sizes` are bytes of a message, about. `first` says whose turn it is where there is not enough for all.
    """
    taken = list(waiting)
    if limit.rows is not None:
        taken = spread(limit.rows, taken, first)
    if limit.bytes is not None:
        whole = [int(count * size) + 1 if count else 0 for count, size in zip(taken, sizes, strict=True)]
        room = spread(limit.bytes, whole, first)
        taken = [
            min(count, int(each / size)) if each < all_ else count
            for count, each, all_, size in zip(taken, room, whole, sizes, strict=True)
        ]
    return taken if any(taken) or not any(waiting) else spread(1, waiting, first)

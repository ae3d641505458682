"""What a topic no longer has, said by name."""

from __future__ import annotations

from strandline.errors import DataError


def told_lost(topic: str, partition: int, low: int, high: int) -> str:
    """The offsets [low, high), which retention removed.

    >>> told_lost("orders", 0, 5, 90)
    "the offsets 5 to 89 (85 of them) of the topic 'orders', partition 0, were removed before they were read"
    """
    return (
        f"the offsets {low} to {high - 1} ({high - low} of them) of the topic {topic!r}, partition {partition}, "
        "were removed before they were read"
    )


def lost(topic: str, partition: int, low: int, high: int) -> DataError:
    """The error over what was removed before it was read."""
    told = told_lost(topic, partition, low, high)
    return DataError(
        f"Data was lost: {told}.",
        fix="Keep topics longer than a flow may stand still; or go on without them: on_lost='skip'.",
    )


def made_anew(topic: str, partition: int | None = None, at: int = 0, end: int = 0) -> DataError:
    """The error over a topic that is not the one that was read before."""
    more = "" if partition is None else f" (partition {partition} is to be read from {at}, and ends at {end})"
    return DataError(
        f"The topic {topic!r} is not the one that was read before: it was deleted and made anew, or lost its end{more}.",
        fix="Read it under another source name, with drop=[...] for this one, or start with a new state.",
    )

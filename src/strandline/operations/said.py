"""What is said at a glance: numbers in a few digits and a unit, and the texts of others on one line."""

from __future__ import annotations

import re
from typing import Final

from strandline.model.time import Instant
from strandline.operations.partitions import Partition

SECOND: Final = 1_000_000
_OBEYED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Signs that a terminal obeys or cannot print: controls, ends of lines, directions of writing, halves of a pair."""
_LONG: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


def brief(span: int) -> str:
    """How long, in at most six signs or two words.

    >>> from strandline.model.time import Span
    >>> [brief(Span.of(text)) for text in ("0s", "420us", "5ms398us", "8s120ms", "3m12s", "2h5m", "3d")]
    ['0', '<1ms', '5ms', '8.1s', '3m 12s', '2h 5m', '3d 0h']
    """
    if span < 0:
        return f"-{brief(-span)}"
    if span < SECOND:
        return "0" if not span else f"{span // 1000}ms" if span >= 1000 else "<1ms"
    if span < 60 * SECOND:
        return f"{span / SECOND:.1f}s"
    seconds = span // SECOND
    unit, word, part, of = next(each for each in _LONG if seconds >= each[0])
    return f"{seconds // unit}{word} {seconds % unit // part}{of}"


def sized(nbytes: float) -> str:
    """How many bytes.

    >>> sized(0), sized(999), sized(85_450), sized(1_234_567), sized(5e12)
    ('0 B', '999 B', '85 kB', '1.2 MB', '5.0 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(nbytes) < 999.5:
            return f"{nbytes:.0f} {unit}" if unit in "BkB" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def counted(number: float) -> str:
    """How many, in at most six signs.

    >>> counted(0), counted(99_999), counted(123_456), counted(-1_234_567), counted(5e9)
    ('0', '99,999', '123k', '-1.2M', '5.0G')
    """
    if abs(number) < 100_000:
        return f"{number:,.0f}"
    unit, word = next((unit, word) for unit, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(number) >= unit)
    return f"{number / unit:.0f}{word}" if word == "k" else f"{number / unit:.1f}{word}"


def plural(count: int, word: str) -> str:
    """How many of what.

    >>> plural(1, "event"), plural(20_000, "event")
    ('1 event', '20,000 events')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def visible(text: str) -> str:
    r"""A text that somebody else wrote, on one line: what a terminal would obey is seen, and does nothing.

    >>> visible("ann\n\x1b[31m"), visible("zoë")
    ('ann\\n\\x1b[31m', 'zoë')
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def rated(rate: float | None) -> str:
    """How many in a second; a dash where nobody knows.

    >>> rated(None), rated(0), rated(0.25), rated(1652.3)
    ('-', '0/s', '0.2/s', '1,652/s')
    """
    if rate is None:
        return "-"
    return f"{counted(rate)}/s" if abs(rate) >= 10 or rate == 0 else f"{rate:.1f}/s"


def clock(instant: Instant) -> str:
    """The time of day in UTC, and the date where there is one; words for the ends of time.

    >>> clock(Instant.of("2026-01-01T12:00:05.4Z")), clock(Instant.END_OF_TIME)
    ('2026-01-01 12:00:05', 'end of time')
    """
    if instant <= Instant.BEFORE_ALL_TIME or instant >= Instant.END_OF_TIME:
        return instant.text
    return Instant(instant // SECOND * SECOND).text.removesuffix("Z").replace("T", " ")


def why(partition: Partition) -> str:
    """What a partition does to its source's watermark, in words; nothing where there is nothing to say."""
    words = {
        "idle": "idle, and not waited for",
        "no data": "caught up and silent",
        "slow": f"{partition.backlog:,} left to read",
        "old events": "what comes is behind the watermark",
        "": "the furthest behind" if partition.holds else "",
    }[partition.why]
    return f"holds it: {words}" if partition.holds else words

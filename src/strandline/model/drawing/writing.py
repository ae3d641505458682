"""How wide text is, about, and where its lines break: a drawing is made where no font can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

# In parts of the size of the font, a little more than in the widest of the fonts that a reader may have.
_NARROW: Final = frozenset("iljtfrI.,:;'|!()[] `-")
_BEHIND: Final = "._=/,-"  # where a long word may break
_WIDE: Final = frozenset("mwMWQGOD@%&—…→=<>+")


def width(text: str, size: float, *, fixed: bool = False) -> float:
    """How wide a text is at most, in a font of this size; `fixed`: one whose letters are all as wide.

    >>> width("mmm", 10) > width("aaa", 10) > width("iii", 10)
    True
    """
    return 0.62 * size * len(text) if fixed else size * sum(map(_of_letter, text))


@cache
def _of_letter(letter: str) -> float:
    if ord(letter) > 0x2000:
        return 1.0 if letter not in "–’‘“”" else 0.6
    if letter in _NARROW:
        return 0.42
    return 0.98 if letter in _WIDE else 0.76 if letter.isupper() else 0.65


def wrapped(text: str, most: float, size: float, *, fixed: bool = False) -> list[str]:
    """A text in lines that are no wider; a word that is too wide itself is cut.

    Law: the lines, joined without blanks, are the text without blanks.

    >>> wrapped("when the watermark reaches its end", 100, 10)
    ['when the', 'watermark', 'reaches its end']
    """
    lines: list[str] = []
    for word in _cut(text.split(), most, size, fixed=fixed):
        if lines and width(f"{lines[-1]} {word}", size, fixed=fixed) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def _cut(words: list[str], most: float, size: float, *, fixed: bool) -> Iterator[str]:
    for word in words:
        rest = word
        while width(rest, size, fixed=fixed) > most:
            fits = len(rest) - 1
            while fits > 1 and width(rest[:fits], size, fixed=fixed) > most:
                fits -= 1
            sign = max(rest.rfind(sign, 0, fits) for sign in _BEHIND) + 1
            yield rest[: sign or fits]
            rest = rest[sign or fits :]
        if rest:
            yield rest

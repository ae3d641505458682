"""The patterns of `like`, as regular expressions that Python and Polars read alike."""

from __future__ import annotations

import re

from strandline.errors import ExpressionError


def like_pattern(pattern: str, escape: str) -> str:
    r"""`%` is any text and `_` any one character; the escape character makes them plain.

    >>> like_pattern("a_%", "\\")
    '(?s)^a..*$'
    """
    parts, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            at += 1
            if pattern[at : at + 1] not in ("%", "_", escape):
                raise ExpressionError(
                    f"In the pattern {pattern!r} the escape {escape!r} stands before no %, _ or {escape!r}.",
                    fix=f"Double the {escape!r}, or name another: like '...' escape '!'.",
                )
            parts.append(_plain(pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or _plain(char))
        at += 1
    # \z is said `$` here: with (?s) and without (?m) Polars ends at the text's end; evaluate uses fullmatch.
    return "(?s)^" + "".join(parts) + "$"


def _plain(char: str) -> str:
    return re.escape(char) if char in r"\.^$*+?{}[]|()#&-~" else char

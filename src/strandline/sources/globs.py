"""Which files of a folder are meant: a path that may have wildcards, and a pattern."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from strandline.errors import DescriptionError

_WILD: Final = re.compile(r"[*?\[]")
_TOKEN: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A folder, and what the paths below it must look like.

    `*` and `?` stand for characters of one name, `**` for any number of folders. A pattern without '/' is that of the
    file's own name. Names that begin with '_' or '.', and files that end with '.tmp', are never wanted.

    >>> wanted = Wanted.of("data/*/orders", "*.json")
    >>> wanted.root, wanted.matches("eu/orders/a.json"), wanted.matches("eu/returns/a.json")
    ('data', True, False)
    """

    root: str
    path: str | None = None
    pattern: str | None = None

    @classmethod
    def of(cls, path: str, pattern: str | None = None) -> Wanted:
        """Cut a path at its first wildcard."""
        parts = path.split("/")
        wild = next((place for place, part in enumerate(parts) if _WILD.search(part)), None)
        if wild is None or os.path.exists(path):
            return cls(path if path == "/" else path.rstrip("/"), None, pattern)
        root = "/".join(parts[:wild]) or ("/" if path.startswith("/") else ".")
        return cls(root, "/".join(parts[wild:]).rstrip("/"), pattern)

    def require_readable(self) -> None:
        """DescriptionError if a wildcard cannot be read, such as one with a range from z to a."""
        given = [glob for glob in (self.path, self.pattern) if glob is not None]
        try:
            re.compile("|".join(map(_regex, given)))
        except re.error as error:
            raise DescriptionError(
                f"The wildcards of {' and '.join(map(repr, given))} cannot be read: {error.msg}.",
                fix="Write such as '*.json' or 'part-[0-9]?'; '[[]' stands for a bracket.",
            ) from None

    def is_visible(self, name: str) -> bool:
        """Whether a file or folder of this name is looked at."""
        return not name.startswith(("_", ".")) and not name.endswith(".tmp")

    def finds(self, path: str) -> bool:
        """Whether a file at this path, which is as absolute as the root, is looked at and meant.

        >>> wanted = Wanted.of("/data", "*.json")
        >>> wanted.finds("/data/eu/a.json"), wanted.finds("/data/_eu/a.json"), wanted.finds("/database/a.json")
        (True, False, False)
        >>> Wanted.of("/").finds("/data/a.json")
        True
        """
        above = self.root.rstrip("/") + "/"
        inside = path.removeprefix(above)
        return path.startswith(above) and all(map(self.is_visible, inside.split("/"))) and self.matches(inside)

    def matches(self, path: str) -> bool:
        """Whether a path below the root is meant. What lies in a folder that matches is meant too."""
        if self.path is not None and not _matches(self.path, path, and_below="(/.*)?"):
            return False
        if self.pattern is None:
            return True
        return _matches(self.pattern, path if "/" in self.pattern else path.rsplit("/", 1)[-1])


def _matches(glob: str, path: str, and_below: str = "") -> bool:
    return re.fullmatch(_regex(glob) + and_below, path, re.DOTALL) is not None


def _regex(glob: str) -> str:
    """A glob as a regular expression (re keeps what it compiled)."""
    return "".join(_part(token) for token in _TOKEN.findall(glob))


def _part(token: str) -> str:
    known = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in known:
        return known[token]
    if len(token) > 1 and token.startswith("["):
        negative = token.startswith("[!")
        chosen = token[2 if negative else 1 : -1].replace("\\", "\\\\")
        return f"[{'^' if negative else ''}{chosen}]" if chosen else re.escape(token)
    return re.escape(token)

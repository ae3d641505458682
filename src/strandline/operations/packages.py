"""The packages that are installed beside this one, and those that its extras need."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from itertools import zip_longest
from typing import Final

NAME: Final = "strandline"
_REQUIREMENT: Final = re.compile(r"([\w.-]+)(?:\[[\w,-]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A package that an extra needs, in which versions, and which one is there."""

    extra: str
    package: str
    versions: str
    found: str | None

    @property
    def met(self) -> bool:
        """Whether it is there, in a version that will do."""
        return self.found is not None and within(self.found, self.versions)


def version_of(package: str) -> str | None:
    """The version of a package that is installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def needs(requirements: Iterable[str] | None = None) -> list[Need]:
    """What the extras need, as the installed package says it.

    >>> [(need.extra, need.package, need.versions) for need in needs(["polars>=1", "redis>=6; extra == 'redis'"])]
    [('redis', 'redis', '>=6')]
    """
    found = []
    for text in _required() if requirements is None else requirements:
        match = _REQUIREMENT.fullmatch(text)
        extra = _EXTRA.search(match[3] or "") if match else None
        if match and extra and match[1] != NAME and extra[1] != "all":
            found.append(Need(extra=extra[1], package=match[1], versions=match[2], found=version_of(match[1])))
    return found


def _required() -> Iterable[str]:
    try:
        return metadata.requires(NAME) or ()
    except metadata.PackageNotFoundError:  # used from a folder, and not installed
        return ()


def within(version: str, versions: str) -> bool:
    """Whether a version lies within bounds such as ">=4.2,<5"; of what is not a number, nothing is said.

    >>> within("4.3.0", "<5,>=4.2"), within("4.10", ">=4.2"), within("3.5.1", "<5,>=4.2"), within("5.0.dev1", "<5")
    (True, True, False, False)
    """
    return all(_holds(_numbers(version), sign, _numbers(bound)) for sign, bound in _BOUND.findall(versions))


def _holds(version: list[int], sign: str, bound: list[int]) -> bool:
    less = equal = False
    for mine, other in zip_longest(version, bound, fillvalue=0):
        if mine != other:
            less = mine < other
            break
    else:
        equal = True
    return {
        ">=": equal or not less, "<=": equal or less, "==": equal, "!=": not equal, "<": less, ">": not (less or equal),
    }[sign]  # fmt: skip


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.match(r"\d+(?:\.\d+)*", version or "0")[0].split(".")]  # type: ignore[index]

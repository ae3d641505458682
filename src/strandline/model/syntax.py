"""The syntax tree of text expressions, free of the parser that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from strandline.errors import ExpressionError
from strandline.model.types import Type

VOID: Final = Type(name="void")
"""The type of a bare `null`, which every type takes in."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the text, with the type that Spark gives it."""

    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the row, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator (`"+"`, `"and"`, `"case"`) with its arguments.

    `case` has condition, value, condition, value, ..., and the default at the end.
    """

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion that the text asks for."""

    arg: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something that only Spark can judge."""

    what: str
    hint: str = ""


Node: TypeAlias = Literal | ColumnRef | Call | Cast | Foreign


class OutsideSubset(ExpressionError):
    """Spark may well know it; without Spark it cannot be run. Never skipped silently."""

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(
            what, fix=fix or 'Run it with Spark (use runner="spark"), or say it with what docs/expressions.md lists.'
        )

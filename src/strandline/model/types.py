"""Column types and schemas, said as in Spark: "user string, amount decimal(10,2), at timestamp"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.errors import DescriptionError, did_you_mean, told

ALIASES: Final = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "dec": "decimal", "numeric": "decimal", "bool": "boolean", "timestamp_ltz": "timestamp",
    "interval": "interval day to second",
}  # fmt: skip
INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
FLOATS: Final = ("float", "double")
SCALARS: Final = (
    "boolean", *INTEGERS, *FLOATS, "decimal", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "interval day to second",
)  # fmt: skip

_OF_A_DAY: Final = ("day", "hour", "minute", "second")
_YEARS: Final = "How long a month is depends on the calendar. Keep the number of months as an int."
_NOT_HERE: Final = {
    "time": "Spark itself keeps it switched off. Keep it as text, or as an interval since midnight.",
    "map": "It has no order, so that rows with it cannot be compared. Keep an array of structs, or its JSON as a string.",
    "variant": "Keep its JSON as a string.",
    "void": "It can hold nothing. Leave the column out, or give it the type that it will have.",
    "year": _YEARS,
    "month": _YEARS,
}
"""Types of Spark's that no column has here, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A column's type. `element` is an array's; `fields` are a struct's; precision and scale a decimal's.

    >>> Type.of("decimal(10, 2)").text
    'decimal(10,2)'
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    @classmethod
    def of(cls, text: str | Type) -> Type:
        """Read a type from Spark's text."""
        return text if isinstance(text, Type) else _Reader(_text(text)).whole_type()

    @classmethod
    def decimal(cls, precision: int, scale: int) -> Type:
        """A decimal type, cut to Spark's 38 digits."""
        return cls(name="decimal", precision=min(precision, 38), scale=min(scale, 38))

    @property
    def text(self) -> str:
        """This type as Spark writes it."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.element is not None:
            return f"array<{self.element.text}>"
        if self.name == "struct":
            return "struct<" + ",".join(f"{n}:{t.text}" for n, t in self.fields) + ">"
        return self.name

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers."""
        return self.name in INTEGERS

    @property
    def is_float(self) -> bool:
        """Whether values are binary floating point."""
        return self.name in FLOATS

    @property
    def is_number(self) -> bool:
        """Whether values can be added."""
        return self.is_integer or self.is_float or self.name == "decimal"

    @property
    def is_scalar(self) -> bool:
        """Whether values have no parts."""
        return self.name in SCALARS

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Schema(Mapping[str, Type]):
    """Named, ordered, typed columns.

    >>> Schema.of("user string, at timestamp").text
    'user string, at timestamp'
    """

    columns: tuple[tuple[str, Type], ...]

    @classmethod
    def of(cls, text: str | Schema) -> Schema:
        """Read a schema from Spark's text."""
        return text if isinstance(text, Schema) else cls(tuple(_Reader(_text(text)).whole_schema()))

    @property
    def text(self) -> str:
        """This schema as Spark writes it."""
        return ", ".join(f"{n} {t.text}" for n, t in self.columns)

    def __getitem__(self, name: str) -> Type:
        for n, t in self.columns:
            if n == name:
                return t
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (n for n, _ in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def require(self, name: str, what: str) -> Type:
        """The type of a column that `what` asks for; a clear error when there is none."""
        if name not in self:
            raise DescriptionError(
                f"{what} asks for the column {name!r}, which is not there.", fix=did_you_mean(name, self)
            )
        return self[name]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DescriptionError(
            f"A schema or type is given as text, not {told(value)}.",
            fix="Write it as Spark does: 'user string, amount decimal(10,2), at timestamp'.",
        )
    return value


class _Reader:
    """A recursive-descent reader of Spark's DDL types."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = re.findall(r"`[^`]+`|\w+|[<>(),:]|\S", text)
        self.at = 0

    def fail(self, why: str) -> DescriptionError:
        return DescriptionError(
            f"The schema or type {self.text!r} cannot be read: {why}.",
            fix="Write it as Spark does: 'user string, amount decimal(10,2), at timestamp'.",
        )

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            wanted, found = repr(expected) if expected else "a word", repr(token) if token else "the end"
            raise self.fail(f"expected {wanted}, found {found}")
        self.at += 1
        return token

    def whole_type(self) -> Type:
        result = self.type()
        if self.peek():
            raise self.fail(f"{self.peek()!r} is left over")
        return result

    def whole_schema(self) -> list[tuple[str, Type]]:
        columns = [self.field()]
        while self.peek():
            if self.peek().lower() in ("not", "comment", "default"):
                raise self.fail(f"behind a type nothing may stand, such as {self.peek()!r} (any column may hold null)")
            self.take(",")
            columns.append(self.field())
        names = [n for n, _ in columns]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(f"the column {name!r} stands twice")
        return columns

    def field(self) -> tuple[str, Type]:
        name = self.take().strip("`")
        if self.peek() == ":":
            self.take()
        return name, self.type()

    def type(self) -> Type:
        word = self.take().lower()
        name = ALIASES.get(word, word)
        if name == "array":
            self.take("<")
            element = self.type()
            self.take(">")
            return Type(name="array", element=element)
        if name == "struct":
            self.take("<")
            fields = [self.field()]
            while self.peek() == ",":
                self.take()
                fields.append(self.field())
            self.take(">")
            return Type(name="struct", fields=tuple(fields))
        if name == "decimal":
            return self.decimal()
        if name in ("char", "varchar"):
            self.take("("), self.take(), self.take(")")
            return Type(name="string")
        if name == "interval day to second":
            self.units()
        if name in _NOT_HERE:
            raise self.not_here(word)
        if name not in SCALARS:
            hint = did_you_mean(word, [*SCALARS, *ALIASES, "array", "struct"])
            raise DescriptionError(f"The type {word!r} in {self.text!r} is not known.", fix=hint)
        return Type(name=name)

    def units(self) -> None:
        """`day to second`, or any of Spark's other ways to say which parts of an interval are written."""
        if self.peek().lower() in _NOT_HERE:
            raise self.not_here("interval year to month", self.peek().lower())
        if self.peek().lower() in _OF_A_DAY:
            self.take()
            if self.peek().lower() == "to":
                self.take()
                if self.take().lower() not in _OF_A_DAY:
                    raise self.fail("an interval goes from day, hour or minute to hour, minute or second")

    def not_here(self, word: str, unit: str = "") -> DescriptionError:
        return DescriptionError(
            f"No column can have Spark's type {word!r}, as in {self.text!r}.", fix=_NOT_HERE[unit or word]
        )

    def decimal(self) -> Type:
        if self.peek() != "(":
            return Type.decimal(10, 0)
        self.take("(")
        precision, scale = self.take(), "0"
        if self.peek() == ",":
            self.take()
            scale = self.take()
        self.take(")")
        if not (precision.isdigit() and scale.isdigit() and 1 <= int(precision) <= 38 and int(scale) <= int(precision)):
            raise self.fail(f"decimal({precision},{scale}) needs 1 to 38 digits and no more of them behind the point")
        return Type.decimal(int(precision), int(scale))


def array_of(element: Type) -> Type:
    """The type of lists of these."""
    return Type(name="array", element=element)


def struct_of(fields: tuple[tuple[str, Type], ...]) -> Type:
    """The type of values with these parts."""
    return Type(name="struct", fields=fields)

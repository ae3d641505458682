"""Text expressions in Spark SQL, understood without Spark.

`parse` reads any expression; `type_in` says its type where the documented subset (docs/expressions.md) covers it, and
None where only Spark knows. `strandline.model.evaluate` and `strandline.kernel.expressions` run the subset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from strandline.errors import DescriptionError, ExpressionError, did_you_mean
from strandline.model.bind import bind_node
from strandline.model.coerce import Bound
from strandline.model.syntax import Node, OutsideSubset
from strandline.model.types import Schema, Type


@dataclass(frozen=True, slots=True)
class Expression:
    """A text expression about one row. Two are equal when their texts are.

    >>> expression = parse("price * quantity as total")
    >>> expression.name, sorted(expression.references)
    ('total', ['price', 'quantity'])
    >>> expression.type_in(Schema.of("price double, quantity int")).text
    'double'
    """

    text: str
    root: Node = field(compare=False)
    name: str | None = field(compare=False)
    references: frozenset[str] = field(compare=False)
    uses_now: bool = field(compare=False)
    """Whether the tick's processing time is asked for, by `current_timestamp()` or `now()`."""

    def type_in(self, schema: Schema) -> Type | None:
        """The type over such rows; None when only Spark knows. Raises ExpressionError for what cannot work."""
        try:
            return bind(self, schema).type
        except OutsideSubset:
            return None


@lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """Read a text expression; an ExpressionError when it cannot be read or could not be replayed.

    >>> parse("upper(`full name`)").references
    frozenset({'full name'})
    """
    from strandline.model.sparksql import read  # sqlglot takes a quarter of a second, and workers parse nothing

    return Expression(text, *read(text))


@lru_cache(maxsize=1024)
def bind(expression: Expression, schema: Schema) -> Bound:
    """The expression with every type known and every conversion said, ready to be run over such rows."""
    for name in sorted(expression.references - set(schema)):
        raise ExpressionError(
            f"{expression.text!r} asks for the column {name!r}, which is not there.", fix=did_you_mean(name, schema)
        )
    try:
        return bind_node(expression.root, schema)
    except OutsideSubset as error:
        raise OutsideSubset(f"In {expression.text!r}: {error.what}", fix=error.fix) from None
    except ExpressionError as error:
        raise ExpressionError(f"In {expression.text!r}: {error.what}", fix=error.fix) from None


def require_text(owner: str, value: object) -> str:
    """The value, when it is text; what is not, such as a PySpark Column, gets an error with the fix.

    >>> require_text(".where", "amount > 3")
    'amount > 3'
    """
    if isinstance(value, str):
        return value
    raise DescriptionError(
        f"{owner} takes a text expression in Spark SQL, got {type(value).__name__}.",
        fix="Write it as text, such as \"amount > 3\" for col('amount') > 3; PySpark code goes into .transform(fn).",
    )

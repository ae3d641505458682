"""What aggregates come to in rows of state, from what the state says of them: no flow is needed for those that are built in."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from strandline.errors import StrandlineError
from strandline.kernel.folds import Fold, compile_fold, state_columns
from strandline.model.aggregates import BUILT_IN, Merge, columns_of
from strandline.model.time import Span
from strandline.model.types import Schema, Type

_ABOUT: Final = "aggregate "
_WORDS: Final = {"true": True, "false": False, "null": None}  # JSON's
_KNOWN: Final = {kind.__name__: kind for kind in BUILT_IN if kind is not Merge}


def with_aggregates(rows: pl.DataFrame, about: Mapping[str, str]) -> pl.DataFrame:
    """Rows of state in which the columns of an accumulator are one, that which it comes to; `about` is what the state says.

    An aggregate of a user's own, and one that merges another's, are left as they are.
    """
    shown = []
    kept = rows.columns
    for part, text in about.items():
        name = part.removeprefix(_ABOUT)
        fold = kept_fold(text, taking_back=about.get("retractions") == "taken") if part.startswith(_ABOUT) else None
        if fold is not None and set(columns := state_columns(name, fold)) <= set(kept):
            shown.append(fold.show([rows[column] for column in columns]).alias(f"a.{name}"))
            kept = [column for column in kept if column not in columns]
    return rows.select(kept).with_columns(shown)


def kept_fold(text: str, *, taking_back: bool) -> Fold | None:
    """The fold of an aggregate, from its text in the state; None if that does not tell it.

    >>> fold = kept_fold('Mean(column="price", where="n > 3") over (double)', taking_back=False)
    >>> [name for name, _ in fold.fields], kept_fold('Longest(columns=["x"]) over (string)', taking_back=False)
    (['top', 's0', 's1', 's2', 'flags', 'n'], None)
    """
    found = re.fullmatch(r"(\w+)\((.*)\) over \((.*)\)", text, re.DOTALL)
    kind = _KNOWN.get(found[1]) if found else None
    if found is None or kind is None:
        return None
    # Which rows were taken in is settled: an accumulator comes to the same whatever chose them.
    options = {name: value for name, value in _options(found[2]).items() if name not in {"where", "within"}}
    try:
        aggregate = kind(**options)
        types = [Type.of(each) for each in found[3].split(", ") if each]
        schema = Schema(tuple(zip(columns_of(aggregate), types, strict=True)))
        return compile_fold(aggregate, schema, taking_back=taking_back, mask=None)
    except (StrandlineError, TypeError, ValueError):  # written by a version that knew more of them
        return None


def _options(text: str) -> dict[str, Any]:
    """The options of a description, from its canonical text: names with values in JSON."""
    call = ast.parse(f"_({text})", mode="eval").body
    assert isinstance(call, ast.Call), "it is written as one"
    return {each.arg: _value(each.arg, each.value) for each in call.keywords if each.arg is not None}


def _value(name: str, node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return tuple(_value(name, each) for each in node.elts)
    value = ast.literal_eval(node)
    return Span(value) if name == "half_life" else value

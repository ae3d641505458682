"""Read descriptions written as Python text, such as `AfterWatermark(early=AfterCount(3))`, without running any code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from strandline.errors import StrandlineError, TranscriptError, did_you_mean
from strandline.model.aggregates import BUILT_IN
from strandline.model.intervals import After, Around, Before, Between
from strandline.model.lookups import Cache
from strandline.model.nodes import Arrival
from strandline.model.patterns import absent, followed_by, next, sequence, step  # noqa: A004 - sl.next
from strandline.model.process import TTL
from strandline.model.triggers import KINDS
from strandline.model.watermarks import Bounded, FromSource, Monotonic, Percentile
from strandline.model.windows import Global, Hopping, SameWindow, Session, Tumbling

Constructors: TypeAlias = Mapping[str, Callable[..., Any]]

_WINDOWS: Final = (Tumbling, Hopping, Session, Global, SameWindow)
_POLICIES: Final = (Bounded, Percentile, Monotonic, FromSource)
_INTERVALS: Final = (Before, After, Around, Between)
_PATTERNS: Final = (sequence, step, followed_by, next, absent)
_OF_STEPS: Final = ("times", "consecutive", "optional")  # of a step of a pattern
PUBLIC: Final[Constructors] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (*_WINDOWS, *KINDS, *BUILT_IN, *_POLICIES, *_INTERVALS, *_PATTERNS, Arrival, TTL, Cache)
    }
)


def construct(text: str, known: Constructors = PUBLIC) -> Any:
    """The description that a text says: calls of known constructors, with literals and such calls as arguments.

    >>> construct("Repeatedly(AfterCount(3))")
    Repeatedly(trigger=AfterCount(count=3, exact=False))
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise TranscriptError(
            f"{text!r} cannot be read: {error.msg}.", fix="Write it as in Python: Tumbling('1m')."
        ) from None
    if not isinstance(tree, ast.Call):
        raise TranscriptError(f"{text!r} makes nothing.", fix="Write a constructor with its brackets: Tumbling('1m').")
    return _value(tree, text, known)


def _value(node: ast.expr, text: str, known: Constructors) -> Any:
    if isinstance(node, ast.Call):
        return _call(node, text, known)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise TranscriptError(
            f"{ast.unparse(node)!r} in {text!r} is neither a literal nor a constructor.",
            fix="Use text, numbers, tuples, True, False, None, and the constructors of strandline.",
        ) from None


def _call(node: ast.Call, text: str, known: Constructors) -> Any:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _OF_STEPS and isinstance(node.func.value, ast.Call):
        known = {**known, ast.unparse(node.func): getattr(_value(node.func.value, text, known), node.func.attr)}
    name = ast.unparse(node.func)
    if name not in known:
        raise TranscriptError(f"{text!r} calls {name!r}, which is not known.", fix=did_you_mean(name, known))
    if any(keyword.arg is None for keyword in node.keywords):
        raise TranscriptError(f"{text!r} unpacks arguments.", fix="Write each argument out.")
    positional = [_value(each, text, known) for each in node.args]
    named = {str(keyword.arg): _value(keyword.value, text, known) for keyword in node.keywords}
    try:
        return known[name](*positional, **named)
    except StrandlineError:
        raise
    except TypeError as error:
        raise TranscriptError(f"{text!r} cannot be made: {error}.", fix=f"See the arguments of {name}.") from None

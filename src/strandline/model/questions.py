"""The four questions of each stage, answered in short phrases: what, where, when and how.

What they have to say of windows stands in `model/words.py`, of operators in `model/operator_words.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from strandline.model.firing import written
from strandline.model.lineage import lateness_of, windows_of
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    OverNode,
    ProcessNode,
    StageNode,
    Stateful,
    TableNode,
)
from strandline.model.operator_words import operator_in_words
from strandline.model.words import MODES, trigger_in_words, window_in_words

QUESTIONS: Final = ("what", "where", "when", "how")
Answers = dict[str, str]


def questions(node: Stateful) -> Answers:
    """What is computed, where in event time, when it is shown, and how what is shown later relates to it.

    >>> from strandline.model.flow import Flow
    >>> from strandline.sources.rows import Rows
    >>> clicks = Flow("f").source("clicks", Rows(schema="user string, at timestamp"), time="at")
    >>> first = clicks.dedupe("first", on="user", within="10m")
    >>> for question, answer in questions(first.node).items():
    ...     print(f"{question}: {answer}")
    what: of rows that are equal in user, less than 10m apart, the first to come passes
    where: for each row the 10m before and after it
    when: at once, in the tick in which it comes
    how: each row is shown once, and stays
    """
    if isinstance(node, StageNode):
        return _of_windows(node)
    told = dict(_split(line) for line in operator_in_words(node))
    for question, answer in _NOT_SAID[type(node)].items():
        told.setdefault(question, answer(node))
    return {question: told[question] for question in QUESTIONS}


def all_said(node: OperatorNode) -> list[tuple[str, str]]:
    """All that is said of an operator: the four questions first, and behind them what else there is, such as its state."""
    others = [_split(line) for line in operator_in_words(node)]
    return [*questions(node).items(), *((label, text) for label, text in others if label not in QUESTIONS)]


def _split(line: str) -> tuple[str, str]:
    label, _, text = line.partition(":")
    return label.lower(), text.strip().removesuffix(".")


def _of_windows(stage: StageNode) -> Answers:
    aggregates = ", ".join(f"{name} = {written(aggregate)}" for name, aggregate in stage.aggregates)
    keys = f"for each {', '.join(stage.keys)}" if stage.keys else "over all rows as one group"
    lateness = lateness_of(stage)
    granted = f"; late events are taken for {lateness.text}" if lateness else ""
    return {
        "what": f"{aggregates}; {keys}",
        "where": window_in_words(stage.window),
        "when": f"a window is shown {trigger_in_words(stage.trigger, lateness, windows_of(stage))}",
        "how": f"{stage.mode}: {MODES[stage.mode]}{granted}",
    }


def _always(answer: str) -> Callable[[Any], str]:
    return lambda _: answer


_ONCE: Final = _always("each row is shown once, and stays")
_AT_ONCE: Final = _always("at once, in the tick in which it comes")


def _of_a_join(node: JoinNode) -> str:
    if node.how in ("semi", "anti"):
        return "each row is shown once, and stays"
    return "each pair is shown once, and stays"


def _of_features(node: OverNode) -> str:
    if node.emit == "watermark":
        return "each row is shown once, and stays"
    return "a row whose features change is taken back, with op = retract, and shown again"


def _of_a_process(node: ProcessNode) -> str:
    if node.order == "arrival":
        return f"at once, in the tick in which it comes; or when {node.process.__name__} sets a timer"
    return f"once the watermark has passed it, in order; or when {node.process.__name__} sets a timer"


# What operators do not say themselves, because it is so for all of their kind.
_NOT_SAID: Final[Mapping[type, Mapping[str, Callable[[Any], str]]]] = {
    JoinNode: {"how": _of_a_join},
    DedupeNode: {
        "where": lambda node: f"for each row the {node.within.text} before and after it",
        "when": _AT_ONCE, "how": _ONCE,
    },
    OverNode: {"how": _of_features},
    TableNode: {
        "where": _always("not in windows: what stands now"),
        "how": _always("what stood is taken back, with op = retract, and what stands is inserted"),
    },
    JoinTableNode: {
        "where": lambda node: "the table as it was at the time of each row" if node.as_of else "the table as it is now",
        "how": _ONCE,
    },
    ProcessNode: {
        "where": _always("as its code says"),
        "when": _of_a_process,
        "how": _always("what it gives out stays"),
    },
    DetectNode: {"how": _always("each match is told once, and stays")},
    LookupNode: {"where": _always("each row by itself"), "how": _ONCE},
}  # fmt: skip

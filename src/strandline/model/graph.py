"""A flow drawn as text: a tree from the sources to the sinks, with the four questions of each stage."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from strandline.errors import StrandlineError
from strandline.model.checks import verb
from strandline.model.firing import written
from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, Arrival, OperatorNode, SideNode, SinkNode, SourceNode, StageNode, parents_of
from strandline.model.operator_words import operator_in_short
from strandline.model.questions import questions

INDENT: Final = len("│  ")
LEAST: Final = 40  # in a narrow terminal lines are rather too long than of one word each


def graph(flow: Flow, *, answers: bool = True, width: int = 120) -> str:
    """The flow as a tree, in lines of this width at most: each node stands under the one whose rows it takes.

    `answers` are those to the four questions of each stage.

    >>> from strandline.sources.rows import Rows
    >>> flow = Flow("clicks")
    >>> _ = flow.source("pages", Rows(schema="user string, at timestamp"), time="at").where("user <> 'bot'")
    >>> print(graph(flow))
    clicks
    └─ source 'pages', time='at'
       └─ .where("user <> 'bot'")
    """
    children: dict[int, list[AnyNode]] = {}
    for node in flow.nodes:
        for parent in parents_of(node)[:1]:  # the other side of a join is named, and not drawn again
            children.setdefault(id(parent), []).append(node)
    sources: list[AnyNode] = [node for node in flow.nodes if isinstance(node, SourceNode)]
    return "\n".join([flow.name, *_branches(sources, children, width, answers=answers)])


def _branches(nodes: list[AnyNode], children: dict[int, list[AnyNode]], room: int, *, answers: bool) -> Iterator[str]:
    inside = room - INDENT
    for node in nodes:
        last, below = node is nodes[-1], children.get(id(node), [])
        label, *rest = _broken(_label(node), inside)
        yield f"{'└─' if last else '├─'} {label}"
        told = [*rest, *(_answers(node, inside - INDENT) if answers else [])]
        lines = [f"{'│' if below else ' '}  {line}" for line in told]
        for line in (*lines, *_branches(below, children, inside, answers=answers)):
            yield f"{'  ' if last else '│ '} {line}"


def _broken(label: str, room: int) -> list[str]:
    """A label in lines; all but the first have less room, for they are indented."""
    indent = " " * INDENT
    lines = wrap(label, max(room, LEAST), subsequent_indent=indent, break_on_hyphens=False)
    return [line.removeprefix(indent) for line in lines]


def _answers(node: AnyNode, room: int) -> Iterator[str]:
    """The four questions of a stage; of one that is wrong nothing, for check() says what is."""
    if isinstance(node, StageNode | OperatorNode):
        try:
            for question, answer in questions(node).items():
                yield from wrap(f"{question + ':':<6} {answer}", max(room, LEAST), subsequent_indent=" " * 7)
        except StrandlineError:
            return


def _label(node: AnyNode) -> str:
    if isinstance(node, SourceNode):
        time = "sl.Arrival()" if isinstance(node.time, Arrival) else repr(node.time)
        return f"source {node.name!r}, time={time}"
    if isinstance(node, StageNode):
        keys = f"by {', '.join(node.keys)}" if node.keys else "all rows"
        return f"stage {node.name!r}: {keys}, {written(node.window)}"
    if isinstance(node, OperatorNode):
        return f"stage {node.name!r}: {operator_in_short(node)}"
    if isinstance(node, SideNode):
        return f".{node.side}"
    if isinstance(node, SinkNode):
        key = f" by {', '.join(node.key)}" if node.key else ""
        return f"sink {node.name!r}: {type(node.sink).__name__}, rows={node.rows!r}{key}"
    return verb(node)

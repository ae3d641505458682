"""A flow as a notebook shows it: the picture, and below it what is wrong or risky."""

from __future__ import annotations

from html import escape

from strandline.errors import CheckFailed
from strandline.model.checks import check
from strandline.model.drawing.diagram import Diagram
from strandline.model.drawing.svg import svg
from strandline.model.flow import Flow


def html(flow: Flow) -> str:
    """A fragment of HTML without a script.

    >>> "reads nothing" in html(Flow("empty"))
    True
    """
    return f'<div style="overflow-x:auto">{svg(Diagram.of(flow))}</div>{_said(flow)}'


def _said(flow: Flow) -> str:
    try:
        title, sentences = "Risks", check(flow)
    except CheckFailed as failed:
        title, sentences = "Problems", [f"{problem.what} {problem.fix}" for problem in failed.problems]
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(sentence, quote=False)}</li>" for sentence in sentences)
    return f"<p><b>{title}</b></p><ul>{items}</ul>"

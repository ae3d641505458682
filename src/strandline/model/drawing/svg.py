"""A flow as one SVG that needs nothing beside it: no script, no font, no other file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from strandline.model.drawing.diagram import Box, Diagram
from strandline.model.drawing.placing import Placed, place
from strandline.model.drawing.writing import width, wrapped

_WIDEST: Final = {"source": 300.0, "stage": 380.0, "sink": 280.0, "step": 300.0, "side": 150.0}
_MARGIN: Final = 20.0
_PADDING: Final = 12.0
_TITLE: Final = 14.0
_TEXT: Final = 12.0
_LINE: Final = 16.0  # from line to line
_GAP: Final = 4.0  # between two answers
_LABELS: Final = 8.0  # between a label and its text
_PORT: Final = 11.0
_HEAD: Final = 26.0  # the name of the flow

# Everything has a colour of its own in both schemes, the ground too: text is never on a ground that is not ours.
_COLOURS: Final = {
    "ground": ("#ffffff", "#14181d"), "ink": ("#1f2328", "#e6e8eb"), "faint": ("#59636e", "#9aa4b0"),
    "arrow": ("#7a8490", "#7f8a97"), "source": ("#e3f0fc", "#12293f"), "source-edge": ("#5a9bd5", "#4a86bd"),
    "stage": ("#f4f1fb", "#241f35"), "stage-edge": ("#8d79c9", "#8573bd"), "sink": ("#e6f5ea", "#15301f"),
    "sink-edge": ("#5cab74", "#4b9463"), "step": ("#f3f4f6", "#22272e"), "step-edge": ("#b4bcc6", "#545d68"),
    "side": ("#fdf1e3", "#36281a"), "side-edge": ("#d9974a", "#b27b3c"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Written:
    """A box with its lines broken, and its size. In a line of its own above them stand the ports, each below its arrow."""

    box: Box
    ports: float
    title: list[str]
    answers: list[tuple[str, list[str]]]
    labels: float
    width: float
    height: float


def svg(diagram: Diagram) -> str:
    """The picture of a flow, readable on a light and on a dark ground.

    >>> drawn = svg(Diagram(name="a <b>", boxes=(Box(kind="step", title=".where('n < 3')"),), arrows=()))
    >>> drawn.startswith("<svg "), "a &lt;b&gt;" in drawn, "n &lt; 3" in drawn
    (True, True, True)
    """
    ports = [[arrow.port for arrow in diagram.arrows if arrow.end == at] for at in range(len(diagram.boxes))]
    boxes = [_write(box, taken) for box, taken in zip(diagram.boxes, ports, strict=True)]
    placed = place([(box.width, box.height) for box in boxes], [(arrow.start, arrow.end) for arrow in diagram.arrows])
    wide = max(placed.width, width(diagram.name, 16)) + 2 * _MARGIN
    high = placed.height + 2 * _MARGIN + _HEAD
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="strandline-flow" role="img"',
        f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">',
        f"<title>{escape(f'The flow {diagram.name!r}', quote=False)}</title>",
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{wide:.0f}" height="{high:.0f}" rx="10"/>',
        f'<text class="name" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(diagram.name, quote=False)}</text>',
        f'<g transform="translate({_MARGIN} {_MARGIN + _HEAD})">',
        *_arrows(diagram, boxes, placed),
        *(part for box, x, y in zip(boxes, placed.xs, placed.ys, strict=True) for part in _drawn(box, x, y)),
        *_ports(diagram, boxes, placed),
        "</g></svg>",
    ]
    return "\n".join(parts)


def _write(box: Box, ports: list[str]) -> _Written:
    most = _WIDEST[box.kind] - 2 * _PADDING
    code = box.kind in ("step", "side")
    size = _TEXT if code else 1.1 * _TITLE  # titles are bold, and a little wider
    title = wrapped(box.title, most, size, fixed=code)
    labels = max((1.1 * width(label, _TEXT) for label, _ in box.lines if label), default=-_LABELS) + _LABELS
    answers = [(label, wrapped(text, most - labels, _TEXT)) for label, text in box.lines]
    own = max([width(line, size, fixed=code) for line in title])
    own = max([own, *(labels + width(line, _TEXT) for _, lines in answers for line in lines)])
    above = _LINE if any(ports) else 0.0
    rows = len(title) + sum(len(lines) for _, lines in answers)
    high = above + rows * _LINE + len(answers) * _GAP + (_GAP if answers else 0) + 2 * _PADDING - 4
    wide = max(min(own, most) + 2 * _PADDING, (len(ports) + 1) * _between(ports))
    return _Written(box, above, title, answers, labels, wide, high)


def _between(ports: list[str]) -> float:
    """How far apart arrows must come in, for the names of their ports to stand beside each other."""
    return max((width(port, _PORT) for port in ports if port), default=0.0) + _LABELS


def _drawn(written: _Written, middle: float, top: float) -> Iterator[str]:
    kind, left = written.box.kind, middle - written.width / 2
    round_ = written.height / 2 if kind == "side" else 8
    yield f'<g class="{kind}">'
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{written.width:.1f}" height="{written.height:.1f}" rx="{round_:.1f}"/>'
    )
    x, y = left + _PADDING, top + _PADDING + 8 + written.ports
    for line in written.title:
        yield f'<text class="title" x="{x:.1f}" y="{y:.1f}">{escape(line, quote=False)}</text>'
        y += _LINE
    y += _GAP
    for label, lines in written.answers:
        if label:
            yield f'<text class="label" x="{x:.1f}" y="{y:.1f}">{escape(label, quote=False)}</text>'
        for line in lines:
            yield f'<text x="{x + written.labels:.1f}" y="{y:.1f}">{escape(line, quote=False)}</text>'
            y += _LINE
        y += _GAP
    yield "</g>"


def _arrows(diagram: Diagram, boxes: list[_Written], placed: Placed) -> Iterator[str]:
    """Each from the lower edge of a box to the upper one of the next, past all that stands between."""
    for at, arrow in enumerate(diagram.arrows):
        start, end = boxes[arrow.start], arrow.end
        side = boxes[end].box.kind == "side"
        middle = placed.xs[arrow.start]
        lower, floor = (middle, placed.ys[arrow.start] + start.height), (middle, placed.floors[arrow.start])
        last = (_entry(diagram, boxes, placed, at), placed.ys[end])
        tip = (last[0], last[1] - 7)
        yield f'<path class="arrow{" aside" if side else ""}" d="{_curve([lower, floor, *placed.through[at], tip])}"/>'
        yield f'<path class="tip" d="M{last[0]:.1f} {last[1]:.1f} l-4.5 -9 h9 z"/>'


def _ports(diagram: Diagram, boxes: list[_Written], placed: Placed) -> Iterator[str]:
    """The name of each port inside of its box, where no arrow leads."""
    for at, arrow in enumerate(diagram.arrows):
        if arrow.port:
            x, y = _entry(diagram, boxes, placed, at), placed.ys[arrow.end] + _LINE
            yield f'<text class="port" x="{x:.1f}" y="{y:.1f}">{escape(arrow.port, quote=False)}</text>'


def _entry(diagram: Diagram, boxes: list[_Written], placed: Placed, at: int) -> float:
    """Where an arrow comes into its box: those of a join beside each other, in the order in which they come from above."""
    end = diagram.arrows[at].end
    beside = [each for each, arrow in enumerate(diagram.arrows) if arrow.end == end]

    def comes_from(each: int) -> float:
        through = placed.through[each]
        return through[-1][0] if through else placed.xs[diagram.arrows[each].start]

    share = (sorted(beside, key=comes_from).index(at) + 1) / (len(beside) + 1)
    return placed.xs[end] + boxes[end].width * (share - 0.5)


def _curve(points: list[tuple[float, float]]) -> str:
    """A line that leaves and reaches each point straight downwards."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (y + to_y) / 2
        parts.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
    return " ".join(parts)


def _style() -> str:
    light = _rules(0)
    dark = _rules(1)
    common = (
        ".strandline-flow text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
        ".strandline-flow .name{font-size:16px;font-weight:600}"
        ".strandline-flow .title{font-size:14px;font-weight:600}"
        ".strandline-flow .label{font-weight:600}"
        ".strandline-flow .step .title,.strandline-flow .side .title"
        "{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
        ".strandline-flow .port{font-size:11px;text-anchor:middle}"
        ".strandline-flow .arrow{fill:none;stroke-width:1.5}.strandline-flow .aside{stroke-dasharray:5 4}"
    )
    return f"{common}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(scheme: int) -> str:
    colour = {name: both[scheme] for name, both in _COLOURS.items()}
    kinds = "".join(
        f".strandline-flow .{kind} rect{{fill:{colour[kind]};stroke:{colour[f'{kind}-edge']}}}" for kind in _WIDEST
    )
    return (
        f".strandline-flow .ground{{fill:{colour['ground']}}}.strandline-flow text{{fill:{colour['ink']}}}"
        f".strandline-flow .label,.strandline-flow .port{{fill:{colour['faint']}}}"
        f".strandline-flow .arrow{{stroke:{colour['arrow']}}}.strandline-flow .tip{{fill:{colour['arrow']}}}{kinds}"
    )

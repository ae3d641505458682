"""A flow as a picture: boxes in layers that never overlap, text that is escaped, and everything that a flow has."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.drawing.diagram import Diagram
from strandline.model.drawing.placing import place
from strandline.model.drawing.writing import width, wrapped
from strandline.model.questions import QUESTIONS, questions
from tests.lanes import examples
from tests.model.large import large
from tests.model.sinking import Shelf, orders, stage

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    sizes = draw(st.lists(st.tuples(st.floats(20, 400), st.floats(20, 300)), min_size=1, max_size=12))
    ends = [
        (draw(st.integers(0, end - 1)), end) for end in range(1, len(sizes)) for _ in range(draw(st.integers(0, 2)))
    ]
    return sizes, sorted(set(ends))


@settings(max_examples=examples(40))
@given(drawn=graphs())
def test_boxes_never_overlap_and_links_lead_downwards(
    drawn: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, links = drawn
    placed = place(sizes, links)
    boxes = [
        (x - wide / 2, y, x + wide / 2, y + high)
        for x, y, (wide, high) in zip(placed.xs, placed.ys, sizes, strict=True)
    ]
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert all(placed.ys[start] + sizes[start][1] < placed.ys[end] for start, end in links)
    assert all(box[0] >= -1e-6 and box[2] <= placed.width + 1e-6 and box[3] <= placed.height + 1e-6 for box in boxes)


@given(text=st.text(min_size=1, max_size=60), most=st.floats(40, 400))
def test_wrapped_text_fits_and_loses_nothing(text: str, most: float) -> None:
    lines = wrapped(text, most, 12.0)
    assert all(width(line, 12.0) <= most for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def texts(flow: sl.Flow) -> str:
    """All that stands in the picture of a flow."""
    return " ".join(each.text or "" for each in ET.fromstring(flow.svg()).iter(f"{SVG}text"))


def test_the_picture_has_every_node_and_the_four_questions_of_each_stage() -> None:
    flow = large()
    said = texts(flow)
    for box in Diagram.of(flow).boxes:
        assert box.title.split("'")[0].split('"')[0] in said
    stages = sum(box.kind == "stage" for box in Diagram.of(flow).boxes)
    assert [said.split().count(question) >= stages for question in QUESTIONS] == [True] * 4


def test_the_names_of_ports_stand_in_their_boxes_beside_each_other() -> None:
    flow = large()
    rows = flow.source("n", sl.Rows(schema="k int, at timestamp"), time="at")
    rows.join_table("t", flow.table("o", rows, key="k"), suffix="_o")  # a narrow box
    drawn = ET.fromstring(flow.svg())
    boxes = [
        tuple(float(each.get(name, "0")) for name in ("x", "y", "width", "height"))
        for group in drawn.iter(f"{SVG}g")
        if group.get("class") == "stage"
        for each in group.iter(f"{SVG}rect")
    ]
    names = [each for each in drawn.iter(f"{SVG}text") if each.get("class") == "port"]
    ends = [
        (float(each.get("x", "0")), float(each.get("y", "0")), width(each.text or "", 11) / 2 + 2) for each in names
    ]
    assert len(ends) == 6
    for x, y, half in ends:
        assert any(left <= x - half and x + half <= left + wide and top < y - 9 and y < top + high
                   for left, top, wide, high in boxes)  # fmt: skip
    for (one, y, half), (other, below, its) in itertools.combinations(ends, 2):
        assert y != below or abs(one - other) >= half + its


def test_what_users_write_is_escaped() -> None:
    events = orders()
    events.where("user <> '<b>&'").sink("out", Shelf())
    assert "user <> '<b>&'" in texts(events.flow)
    assert "<b>" not in events.flow.svg()


def test_a_flow_that_is_wrong_is_drawn_too_and_a_notebook_says_what_is_wrong() -> None:
    events = orders()
    events.key_by("usr").window(sl.Tumbling("1m")).aggregate("one", n=sl.Count())
    assert "stage 'one'" in texts(events.flow)
    assert "<b>Problems</b>" in events.flow._repr_html_()
    assert "Did you mean 'user'?" in events.flow._repr_html_()


def test_a_notebook_says_the_risks_and_of_a_good_flow_nothing() -> None:
    panes = stage()
    assert "has no sink" in panes.flow._repr_html_()
    panes.sink("out", Shelf(), rows="upsert")
    assert "<ul>" not in panes.flow._repr_html_()


def test_the_same_flow_gives_the_same_picture() -> None:
    assert large().svg() == large().svg()


def test_the_diagram_as_json_names_nodes_and_edges() -> None:
    told = Diagram.of(large()).to_json()
    kinds = {node["kind"] for node in told["nodes"]}
    assert kinds == {"source", "step", "stage", "side", "sink"}
    joins = [edge["port"] for edge in told["edges"] if "port" in edge]
    assert sorted(joins) == ["changes of the table", "other side", "rows", "this side"]


@pytest.mark.parametrize("node", [n for n in large().nodes if hasattr(n, "name") and Diagram], ids=lambda n: n.name)
def test_every_stage_answers_four_questions(node: object) -> None:
    if type(node).__name__ not in ("SourceNode", "SinkNode", "TransformNode", "WithColumnNode"):
        answers = questions(node)  # type: ignore[arg-type]
        assert [*answers] == [*QUESTIONS]
        assert all(answers.values())

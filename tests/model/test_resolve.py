"""What only Spark knows is asked for, once, and then every node's columns are known."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

import strandline as sl
from strandline.errors import CheckFailed, ExpressionError
from strandline.model.lineage import schema_of
from strandline.model.masks import mask_of
from strandline.model.nodes import Node, StageNode, TransformNode
from strandline.model.resolve import SparkColumn, SparkConditions, SparkSelect, SparkWhere, resolve
from tests.model.sinking import Shelf, orders

UNKNOWN = "levenshtein(user, 'ann')"  # outside the subset


@dataclass(frozen=True)
class Asked:
    """The calls that a function makes of a DataFrame, in order."""

    columns: tuple[str, ...] = ("user", "full name", "__time")
    calls: tuple[Any, ...] = ()

    def where(self, text: str) -> Asked:
        return Asked(self.columns, (*self.calls, ("where", text)))

    def selectExpr(self, *texts: str) -> Asked:  # noqa: N802 - PySpark's name
        return Asked(self.columns, (*self.calls, ("selectExpr", *texts)))

    def toDF(self, *names: str) -> Asked:  # noqa: N802 - PySpark's name
        return Asked(self.columns, (*self.calls, ("toDF", *names)))


def never(node: Node) -> sl.Schema:
    raise AssertionError(f"nobody needs to ask for {node}")


def test_a_flow_that_is_known_stays_the_flow_that_it_was() -> None:
    flow = orders().where("n > 3").select("user", "at").key_by("user").window(sl.Tumbling("1m")).aggregate(
        "one", n=sl.Count()).flow  # fmt: skip
    resolved = resolve(flow, never)
    assert resolved == flow
    assert resolved is not flow
    assert all(new is old for new, old in zip(resolved.nodes, flow.nodes, strict=True))


def test_a_declared_schema_is_not_asked_for() -> None:
    stream = orders().transform(lambda df: df, schema="user string")
    assert resolve(stream.flow, never) == stream.flow


def test_a_transform_is_asked_for_when_what_comes_before_it_is_known() -> None:
    asked: list[sl.Schema | None] = []

    def tell(node: Node) -> sl.Schema:
        assert isinstance(node, TransformNode)
        asked.append(schema_of(node.parent))
        return sl.Schema.of("user string, score int")

    first = orders().transform(lambda df: df, name="one")
    panes = first.transform(lambda df: df, name="two").key_by("user").window(sl.Tumbling("1m")).aggregate(
        "best", best=sl.Max("score"))  # fmt: skip
    panes.sink("out", Shelf(), columns=["user", "best"])
    resolved = resolve(panes.flow, tell)
    assert resolved.check() == []
    assert asked == [schema_of(orders().node), sl.Schema.of("user string, score int")]
    assert [type(node) for node in resolved.nodes] == [type(node) for node in panes.flow.nodes]
    stage = resolved.nodes[3]
    assert isinstance(stage, StageNode)
    assert stage.parent is resolved.nodes[2]
    shown = schema_of(stage)
    assert shown is not None
    assert shown["best"].text == "int"


@pytest.mark.parametrize(
    ("make", "name", "function"),
    [
        (lambda s: s.where(f"{UNKNOWN} < 2"), f"where {UNKNOWN} < 2", SparkWhere(f"{UNKNOWN} < 2")),
        (lambda s: s.select("user", f"{UNKNOWN} as d"), f"select user, {UNKNOWN} as d", SparkSelect(("user", f"{UNKNOWN} as d"))),
        (lambda s: s.with_column("d", UNKNOWN), f"with_column d = {UNKNOWN}", SparkColumn("d", UNKNOWN)),
    ],
)  # fmt: skip
def test_an_expression_that_only_spark_understands_becomes_a_transform(make: Any, name: str, function: Any) -> None:
    told = sl.Schema.of("user string, d int")
    flow = make(orders()).flow
    node = resolve(flow, lambda _: told).nodes[-1]
    assert isinstance(node, TransformNode)
    assert (node.name, node.function, node.schema) == (name, function, told)
    assert pickle.loads(pickle.dumps(function)) == function


def test_the_functions_call_the_frame_and_carry_what_is_hidden() -> None:
    assert SparkWhere("a > 1")(Asked()).calls == (("where", "a > 1"),)
    assert SparkSelect(("upper(user) as u",))(Asked()).calls == (("selectExpr", "upper(user) as u", "`__time`"),)
    assert SparkColumn("d", "f(user)")(Asked()).calls == (
        ("selectExpr", "`user`", "`full name`", "`__time`", "f(user)"),
        ("toDF", "user", "full name", "__time", "d"),
    )
    assert SparkColumn("user", "f(user)")(Asked()).calls == (
        ("selectExpr", "f(user)", "`full name`", "`__time`"),
        ("toDF", "user", "full name", "__time"),
    )


def test_what_a_stage_asks_of_its_rows_and_only_spark_understands_is_asked_before_it() -> None:
    near = f"{UNKNOWN} < 2"
    trigger = sl.AfterWatermark(early=sl.OnEvent(near))
    stage = orders().key_by("user").window(sl.Tumbling("1m"), trigger=trigger).aggregate(
        "one", n=sl.Count(where=near), m=sl.Count(where="amount > 3"), all=sl.Count())  # fmt: skip
    resolved = resolve(stage.flow, lambda node: schema_of(node.parent))  # type: ignore[arg-type,return-value,union-attr]
    *_, transform, last = resolved.nodes
    assert isinstance(last, StageNode)
    assert last.parent is transform
    assert isinstance(transform, TransformNode)
    assert transform.function == SparkConditions(((mask_of(near), near),))
    assert len(resolved.nodes) == len(stage.flow.nodes) + 1
    assert transform.function(Asked()).calls == (
        ("selectExpr", "*", f"coalesce({near}, false) as `{mask_of(near)}`"),
    )  # fmt: skip


def test_what_is_wrong_behind_a_transform_is_said_by_the_check_that_follows() -> None:
    wrong = orders().transform(lambda df: df).where("amuont > 3").with_column("x", "amuont")
    wrong.flow.check()
    with pytest.raises(CheckFailed, match="'amuont', which is not there"):
        resolve(wrong.flow, lambda _: sl.Schema.of("amount double")).check()


def test_a_clock_that_only_spark_can_read_is_refused() -> None:
    stream = orders().with_column("age", "timestampdiff(HOUR, at, current_timestamp())")
    with pytest.raises(ExpressionError, match="its clock is not the tick's"):
        resolve(stream.flow, never)


def test_the_class_of_the_flow_is_kept() -> None:
    class Runnable(sl.Flow):
        pass

    flow = Runnable("mine", buckets=3)
    flow.source("orders", sl.Rows(schema="at timestamp"), time="at").transform(lambda df: df)
    resolved = resolve(flow, lambda _: sl.Schema.of("at timestamp"))
    assert (type(resolved), resolved.buckets) == (Runnable, 3)

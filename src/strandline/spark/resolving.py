"""Ask Spark for what only it knows, before the start: the columns behind a user's transform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from strandline.errors import RunError, raised_by, written_at
from strandline.kernel.plan import plan_stage
from strandline.kernel.schema import polars_schema
from strandline.kernel.show import pane_schema
from strandline.model.flow import Flow
from strandline.model.lineage import carried, schema_of
from strandline.model.nodes import Node, TransformNode, stage_before
from strandline.model.panes import HIDDEN, TIME
from strandline.model.resolve import SparkConditions, resolve
from strandline.model.types import Schema
from strandline.spark.frames import require_plain_names, schema_of_spark, spark_schema

_REMEMBERING: Final = (
    "Aggregate",
    "Deduplicate",
    "Distinct",
    "Intersect",
    "Except",
    "FlatMapGroups",
    "FlatMapCoGroups",
    "CoGroup",
    "MapGroups",
    "TransformWithState",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Tail",
)
"""How the names begin of those of Spark's operators that keep rows, or something of them, or count them."""
_BOTH: Final = ("INNER", "CROSS")
_LEFT: Final = (*_BOTH, "LEFT OUTER", "LEFT SEMI", "LEFT ANTI")
_RIGHT: Final = (*_BOTH, "RIGHT OUTER")
"""The joins with a table that give nothing but rows of the left side, or of the right one."""
_INPUT: Final = f"{HIDDEN}input"
"""The alias by which the rows that a transform is given are known again in its plan."""


def resolved(spark: SparkSession, flow: Flow) -> Flow:
    """The flow with the columns of every node known, checked once more with them."""
    whole = resolve(flow, lambda node: _asked(spark, flow, node))
    whole.check()
    declared = {id(node.function) for node in flow.nodes if isinstance(node, TransformNode) and node.schema is not None}
    for node in whole.nodes:
        if isinstance(node, TransformNode) and id(node.function) in declared:
            _require_declared(spark, whole, node)
    return whole


def _require_declared(spark: SparkSession, flow: Flow, node: TransformNode) -> None:
    """What a transform says that it gives, it must give."""
    found = _asked(spark, flow, node)
    assert node.schema is not None, "it was declared"
    if dict(found) != dict(node.schema):
        raise RunError(
            f"The transform {node.name!r} should give {node.schema.text}, and gives {found.text}.",
            fix="Write the schema as it is, or cast in the transform; without schema= Spark is asked.",
        )


def _asked(spark: SparkSession, flow: Flow, node: Node) -> Schema:
    assert isinstance(node, TransformNode)
    before = schema_of(node.parent)
    assert before is not None, "nodes are resolved in order"
    hidden = _hidden(flow, node)
    try:
        types = spark_schema({**polars_schema(before), **hidden})
    except PySparkException as error:
        raise RunError(
            f"Rows cannot pass through the transform {node.name!r}: Spark has no type for what panes carry there for a "
            f"later Merge ({', '.join(hidden)}).",
            fix="Merge before the transform, or transform behind the stage that merges.",
        ) from error
    try:
        made = node.function(spark.createDataFrame([], types).alias(_INPUT))
    except PySparkException as error:
        raise RunError(
            f"The transform {node.name!r} ({written_at(node.function, error)}) does not fit its input ({before.text}): "
            f"{without_plan(error)}",
            fix="Mend it: it gets a DataFrame with these columns, and gives one.",
        ) from error
    except Exception as error:
        raise RunError(
            f"In the transform {node.name!r}, {raised_by(node.function, error)}",
            fix="Mend the function. It is called with an empty DataFrame before the start, to learn its columns.",
        ) from error
    if not isinstance(made, DataFrame):
        raise RunError(f"The transform {node.name!r} gave {made!r}, no DataFrame.", fix="Let it return the DataFrame.")
    lost = [name for name in hidden if name not in made.columns]
    if lost:
        raise RunError(
            f"The transform {node.name!r} loses {', '.join(lost)}: an event's time travels there.",
            fix=f"Keep what begins with {HIDDEN!r}: use withColumn and filter, or select(..., {', '.join(map(repr, lost))}).",
        )
    _require_plain_columns(made, node, types)
    _require_conditions(made, node)
    if made.isStreaming or not is_stateless(made):
        raise RunError(
            f"The transform {node.name!r} is not stateless.",
            fix="Leave joins and aggregates to stages; keep row by row work, and joins that only add to rows from a table.",
        )
    seen = StructType([field for field in made.schema.fields if not field.name.startswith(HIDDEN)])
    return schema_of_spark(seen, f"The transform {node.name!r}")


def without_plan(error: PySparkException) -> str:
    """What Spark says is wrong, without the plan in which it is."""
    return str(error).partition(";\n")[0]


def _require_plain_columns(made: DataFrame, node: TransformNode, given: StructType) -> None:
    """Each column once, and what travels unseen as it was: others read it."""
    require_plain_names(made.columns, f"The transform {node.name!r}")
    twice = [name for name, count in Counter(made.columns).items() if count > 1]
    if twice:
        raise RunError(
            f"The transform {node.name!r} gives several columns of one name: {', '.join(twice)}.",
            fix="Drop or rename one of them; after a join by a name, join(table, 'key'), there is one column of it.",
        )
    kinds = {field.name: field.dataType for field in given.fields if field.name.startswith(HIDDEN)}
    changed = [name for name, kind in kinds.items() if made.schema[name].dataType != kind]
    if changed:
        raise RunError(
            f"The transform {node.name!r} makes something else of {', '.join(changed)}: an event's time travels there.",
            fix=f"Leave what begins with {HIDDEN!r} as it is; give a time of your own another name.",
        )


def _require_conditions(made: DataFrame, node: TransformNode) -> None:
    """What a stage asks of each row must be true or false."""
    if isinstance(node.function, SparkConditions):
        for name, text in node.function.texts:
            kind = made.schema[name].dataType.simpleString()
            if kind != "boolean":
                raise RunError(f"{text!r} should be a condition, and is {kind}.", fix="Compare it with something.")


def is_stateless(made: DataFrame) -> bool:
    """Whether the rows of a DataFrame are made one by one, of a stream or of what a transform is given.

    A table beside them may be anything: it does not grow.
    """
    found = _look_at(made._jdf.queryExecution().analyzed())
    # What came by another way than the plan, as by an RDD, is not known again: then every operator counts.
    return not (found.remembers if found.grows else found.could_remember)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a plan is: made of rows that come, with an operator that remembers them, or that could remember any."""

    grows: bool
    remembers: bool
    could_remember: bool


def _look_at(plan: Any) -> _Found:
    below, aside = ([_look_at(each) for each in _each(some)] for some in (plan.children(), plan.subqueries()))
    name, growing = str(plan.nodeName()), [each.grows for each in below]
    keeps = name == "Window" or name.startswith(_REMEMBERING)
    remembers = keeps and any(growing)
    if name in ("Join", "AsOfJoin"):
        remembers = all(growing) or (
            any(growing) and str(plan.joinType().sql()) not in (_LEFT if growing[0] else _RIGHT)
        )
    is_input = name == "SubqueryAlias" and str(plan.alias()) == _INPUT
    return _Found(
        grows=is_input or any(growing) or (not below and bool(plan.isStreaming())),
        # A subquery looks at all rows at once.
        remembers=remembers or any(each.remembers for each in below) or any(each.grows for each in aside),
        could_remember=keeps or any(each.could_remember for each in below),
    )


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(at) for at in range(found.size()))


def _hidden(flow: Flow, node: TransformNode) -> dict[str, pl.DataType]:
    """The columns that travel unseen where a transform stands."""
    before = stage_before(node)
    if before is None:
        return {TIME: pl.Int64()}
    panes = pane_schema(plan_stage(before, carry=carried(flow, before)))
    return {name: dtype for name, dtype in panes.items() if name.startswith(HIDDEN)}

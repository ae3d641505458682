"""An oracle for each stage of a flow, and the stateless work between stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from strandline.errors import DescriptionError
from strandline.model.aggregates import Merge
from strandline.model.checks import asked_columns
from strandline.model.evaluate import evaluate
from strandline.model.expressions import Expression
from strandline.model.flow import Flow
from strandline.model.lineage import base_of, carried, inputs_of, lateness_of, retracts, schema_of
from strandline.model.lookups import Asker
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    OverNode,
    ProcessNode,
    SelectNode,
    StageNode,
    Stateful,
    TableNode,
    WhereNode,
    WithColumnNode,
)
from strandline.model.oracle.dedupe import DedupeOracle
from strandline.model.oracle.join import JoinOracle
from strandline.model.oracle.lookup import LookupOracle
from strandline.model.oracle.over import OverOracle
from strandline.model.oracle.patterns import DetectOracle
from strandline.model.oracle.process import ProcessOracle
from strandline.model.oracle.stage import StageOracle
from strandline.model.oracle.tables import JoinTableOracle, TableOracle
from strandline.model.panes import HIDDEN
from strandline.model.process import Process
from strandline.model.time import Instant
from strandline.model.types import Schema

OracleRow: TypeAlias = dict[str, Any]
AskerOf: TypeAlias = Callable[[LookupNode, Schema], Asker]
OperatorOracle: TypeAlias = (
    DedupeOracle | DetectOracle | JoinOracle | ProcessOracle | OverOracle | TableOracle | JoinTableOracle | LookupOracle
)
Oracle: TypeAlias = StageOracle | OperatorOracle


def oracle_of(flow: Flow, node: Stateful, asker_of: AskerOf) -> Oracle:
    """An oracle that has seen nothing; `asker_of` gives who answers for a lookup."""
    if not isinstance(node, StageNode):
        return _operator(node, asker_of)
    schema = schema_of(node.parent)
    return StageOracle(
        node,
        lateness=lateness_of(node),
        taking_back=retracts(node.parent),
        schema=schema,
        asked=None if schema is None else asked_columns(node, schema),
        carry=carried(flow, node),
        merged={a.column: base_of(node, a)[1] for _, a in node.aggregates if isinstance(a, Merge)},
    )


def _operator(node: OperatorNode, asker_of: AskerOf) -> OperatorOracle:
    inputs = inputs_of(node)
    assert inputs is not None, "a node that is played knows its columns"
    if isinstance(node, DedupeNode):
        return DedupeOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, DetectNode):
        return DetectOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, ProcessNode):
        if not issubclass(node.process, Process):
            raise DescriptionError(
                f"{node.process.__name__} works in columns, which the oracle does not.", fix="Use runner='kernel'."
            )
        return ProcessOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, OverNode):
        return OverOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, TableNode):
        return TableOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, LookupNode):
        key = Schema(tuple((name, inputs[0][name]) for name in node.on))
        return LookupOracle(node, asker=asker_of(node, key), schemas=inputs)
    if isinstance(node, JoinTableNode):
        return JoinTableOracle(node, lateness=lateness_of(node), schemas=inputs)
    return JoinOracle(node, lateness=lateness_of(node), schemas=inputs)


def stateless_rows(
    node: WhereNode | SelectNode | WithColumnNode, rows: list[OracleRow], now: Instant
) -> list[OracleRow]:
    """Rows filtered, or made anew: the expression is asked of each row. What is hidden is carried along."""
    schema = schema_of(node.parent)

    def value(expression: Expression, row: OracleRow) -> Any:
        return evaluate(expression, row, schema=schema, now=now)

    if isinstance(node, WhereNode):
        return [row for row in rows if value(node.condition, row) is True]
    if isinstance(node, SelectNode):
        return [{str(each.name): value(each, row) for each in node.columns} | _hidden(row) for row in rows]
    return [{**row, node.name: value(node.expression, row)} for row in rows]


def _hidden(row: OracleRow) -> OracleRow:
    return {name: value for name, value in row.items() if name.startswith(HIDDEN)}

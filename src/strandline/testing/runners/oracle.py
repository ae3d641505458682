"""Play with the oracle: rows are dicts, and every expression is evaluated one row at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

from strandline.errors import TranscriptError
from strandline.lookups.asking import asker_of
from strandline.model.aggregates import Merge
from strandline.model.checks import asked_columns
from strandline.model.evaluate import evaluate
from strandline.model.expressions import Expression
from strandline.model.flow import Flow
from strandline.model.lineage import base_of, carried, inputs_of, lateness_of, retracts, schema_of
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
)
from strandline.model.oracle import (
    DedupeOracle,
    DetectOracle,
    JoinOracle,
    JoinTableOracle,
    LookupOracle,
    OverOracle,
    ProcessOracle,
    StageOracle,
    TableOracle,
)
from strandline.model.oracle.late import aside
from strandline.model.ordering import ordered_by
from strandline.model.panes import HIDDEN
from strandline.model.process import Process
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books
from strandline.testing.runners import StageOutcome, Stateless

OracleRow = dict[str, Any]
Oracle: TypeAlias = (
    StageOracle
    | DedupeOracle
    | DetectOracle
    | JoinOracle
    | ProcessOracle
    | OverOracle
    | TableOracle
    | JoinTableOracle
    | LookupOracle
)


class OracleRunner:
    """Runs nodes on lists of rows."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def read(self, rows: list[OracleRow], schema: Schema) -> list[OracleRow]:
        """The rows as they are."""
        return [dict(row) for row in rows]

    def stateless(self, node: Stateless, batch: list[OracleRow], now: Instant) -> list[OracleRow]:
        """Ask the expression of each row."""
        schema = schema_of(node.parent)

        def value(expression: Expression, row: OracleRow) -> Any:
            return evaluate(expression, row, schema=schema, now=now)

        if isinstance(node, WhereNode):
            return [row for row in batch if value(node.condition, row) is True]
        if isinstance(node, SelectNode):
            return [{str(each.name): value(each, row) for each in node.columns} | _hidden(row) for row in batch]
        return [{**row, node.name: value(node.expression, row)} for row in batch]

    def stage(self, node: Stateful) -> OracleStage:
        """An oracle that has seen nothing."""
        if not isinstance(node, StageNode):
            return OracleStage(_operator(node))
        schema = schema_of(node.parent)
        return OracleStage(
            StageOracle(
                node,
                lateness=lateness_of(node),
                taking_back=retracts(node.parent),
                schema=schema,
                asked=None if schema is None else asked_columns(node, schema),
                carry=carried(self.flow, node),
                merged={a.column: base_of(node, a)[1] for _, a in node.aggregates if isinstance(a, Merge)},
            )
        )

    def rows(self, batch: list[OracleRow]) -> list[OracleRow]:
        """The rows without what is hidden."""
        return [{name: value for name, value in row.items() if not name.startswith(HIDDEN)} for row in batch]


def _operator(node: OperatorNode) -> Oracle:
    inputs = inputs_of(node)
    assert inputs is not None, "a node that is played knows its columns"
    if isinstance(node, DedupeNode):
        return DedupeOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, DetectNode):
        return DetectOracle(node, lateness=lateness_of(node), schemas=inputs)
    if isinstance(node, ProcessNode):
        if not issubclass(node.process, Process):
            raise TranscriptError(
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


class OracleStage:
    """A stage oracle; its state is copied where the kernel's is encoded."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    def tick(self, batches: Sequence[list[OracleRow]], edge: Edge, now: Instant) -> StageOutcome:
        """Make one tick."""
        if isinstance(self.oracle, StageOracle):
            outcome = self.oracle.tick(batches[0], edge, now)
            late, rejected = list(outcome.late), list(outcome.rejected)
        else:
            outcome = self.oracle.tick(batches, edge, now)
            late, rejected = (
                _aside(self.oracle.node, *side) for side in (("late", outcome.late), ("rejected", outcome.rejected))
            )
        return StageOutcome(
            panes=list(outcome.panes),
            late=late,
            rejected=rejected,
            replaced=list(outcome.replaced),
            watermark=outcome.watermark,
            books=Books.of(outcome.books),
            sides=outcome.sides,
        )

    def encode(self) -> Oracle:
        """A copy that later ticks do not change."""
        return copy.deepcopy(self.oracle)

    def restore(self, kept: Oracle) -> None:
        """Go on from a copy."""
        self.oracle = copy.deepcopy(kept)

    def same(self, one: Oracle, other: Oracle) -> bool:
        """The oracle has no bytes to compare; what it shows is compared by the play."""
        return True


def _hidden(row: OracleRow) -> OracleRow:
    return {name: value for name, value in row.items() if name.startswith(HIDDEN)}


def _aside(node: OperatorNode, side: str, rows: list[OracleRow]) -> list[OracleRow]:
    """Rows that an operator put aside, in the order in which they come out."""
    inputs = inputs_of(node)
    assert inputs is not None, "a node that is played knows its columns"
    if isinstance(node, JoinTableNode) and side == "rejected":  # those of its table's changes
        return aside(rows, node.other_keys, inputs[1])
    return aside(rows, ordered_by(node) or (), inputs[0])

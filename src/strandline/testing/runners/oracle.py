"""Play with the oracle: rows are dicts, and every expression is evaluated one row at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from strandline.errors import DescriptionError, TranscriptError
from strandline.lookups.asking import asker_of
from strandline.model.flow import Flow
from strandline.model.lineage import inputs_of
from strandline.model.nodes import JoinTableNode, OperatorNode, Stateful
from strandline.model.oracle import StageOracle
from strandline.model.oracle.late import aside
from strandline.model.oracles import Oracle, OracleRow, oracle_of, stateless_rows
from strandline.model.ordering import ordered_by
from strandline.model.panes import HIDDEN
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books
from strandline.testing.runners import StageOutcome, Stateless


class OracleRunner:
    """Runs nodes on lists of rows."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def read(self, rows: list[OracleRow], schema: Schema) -> list[OracleRow]:
        """The rows as they are."""
        return [dict(row) for row in rows]

    def stateless(self, node: Stateless, batch: list[OracleRow], now: Instant) -> list[OracleRow]:
        """Ask the expression of each row."""
        return stateless_rows(node, batch, now)

    def stage(self, node: Stateful) -> OracleStage:
        """An oracle that has seen nothing."""
        try:
            return OracleStage(oracle_of(self.flow, node, asker_of))
        except DescriptionError as error:
            raise TranscriptError(error.what, fix=error.fix) from None

    def rows(self, batch: list[OracleRow]) -> list[OracleRow]:
        """The rows without what is hidden."""
        return [{name: value for name, value in row.items() if not name.startswith(HIDDEN)} for row in batch]


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


def _aside(node: OperatorNode, side: str, rows: list[OracleRow]) -> list[OracleRow]:
    """Rows that an operator put aside, in the order in which they come out."""
    inputs = inputs_of(node)
    assert inputs is not None, "a node that is played knows its columns"
    if isinstance(node, JoinTableNode) and side == "rejected":  # those of its table's changes
        return aside(rows, node.other_keys, inputs[1])
    return aside(rows, ordered_by(node) or (), inputs[0])

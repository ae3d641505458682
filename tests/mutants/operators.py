"""The other decisions about joins, features, deduplication and lookups: what meets, which row passes, what is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl
import pytest

from strandline.kernel.advance import Advanced
from strandline.kernel.operators import dedupe, lookup
from strandline.kernel.operators.dedupe import DedupePlan
from strandline.kernel.operators.join import JoinPlan
from strandline.kernel.operators.lookup import LookupPlan
from strandline.kernel.operators.over import OverPlan
from strandline.kernel.preaggregate import Books
from strandline.model.intervals import Interval
from strandline.model.nodes import JoinNode, OverNode
from strandline.model.oracle import dedupe as oracle_dedupe
from strandline.model.oracle.dedupe import DedupeOracle
from strandline.model.oracle.join import JoinOracle
from strandline.model.oracle.lookup import LookupOracle
from strandline.model.oracle.over import OverOracle
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from tests.mutants.changing import change_node

Patch: TypeAlias = pytest.MonkeyPatch


def an_interval_speaks_of_this_side(patch: Patch) -> None:
    """`After` says that this row comes after the other one."""

    def turned(node: JoinNode) -> JoinNode:
        assert isinstance(node.within, Interval)
        return replace(node, within=Interval(low=Span(-node.within.high), high=Span(-node.within.low)))

    for made in (JoinPlan, JoinOracle):
        change_node(patch, made, turned)


def a_join_holds_nothing_back(patch: Patch) -> None:
    """The output is promised as far as the input, whatever may still wait."""
    patch.setattr(JoinPlan, "promise", lambda self, after, hold: after)

    def promised(self: JoinOracle, edge: Edge) -> Instant:
        return edge.after

    patch.setattr(JoinOracle, "_promise", promised)


def a_horizon_leaves_out_its_earlier_end(patch: Patch) -> None:
    """A feature looks at what is less than `within` ago."""

    def shorter(node: OverNode) -> OverNode:
        features = ((name, replace(each, within=Span(each.within - 1))) for name, each in node.features)  # type: ignore[type-var, union-attr, operator]
        return replace(node, features=tuple(features))

    for made in (OverPlan, OverOracle):
        change_node(patch, made, shorter)


def the_earliest_of_equal_rows_passes(patch: Patch) -> None:
    """Of rows that come together that one passes which happened first."""
    prepared, tick = DedupePlan.prepared, DedupeOracle.tick

    def kernel(self: DedupePlan, port: int, rows: pl.DataFrame, now: Instant) -> pl.DataFrame:
        return prepared(self, port, rows.sort(TIME, maintain_order=True), now)

    def oracle(self: DedupeOracle, batches: Any, edge: Edge, now: Instant) -> Any:
        return tick(self, [sorted(rows, key=lambda row: int(row[TIME])) for rows in batches], edge, now)

    patch.setattr(DedupePlan, "prepared", kernel)
    patch.setattr(DedupeOracle, "tick", oracle)


def only_what_happened_before_is_repeated(patch: Patch) -> None:
    """A row that is older than its like which passed is no repetition."""
    ranges, never = dedupe.ranges, 2**62

    def kernel(known: Any, known_times: Any, ids: Any, low: Any, high: Any) -> Any:
        return ranges(known, known_times, ids, low, (low + high) // 2)

    patch.setattr(dedupe, "ranges", kernel)
    patch.setattr(oracle_dedupe, "abs", lambda apart: apart if apart >= 0 else never, raising=False)


def a_question_that_fails_loses_its_rows(patch: Patch) -> None:
    """A row without an answer is dropped, as an inner join drops one without a match."""
    advance, tick = LookupPlan.advance, LookupOracle.tick

    def kernel(self: LookupPlan, *given: Any) -> Advanced:
        found = advance(self, *given)
        return replace(
            found, rejected=found.rejected.clear(), books=Books(rows=found.books.rows, kept=found.books.rows)
        )

    def oracle(self: LookupOracle, *given: Any) -> Any:
        found = tick(self, *given)
        return replace(found, rejected=[], books=replace(found.books, kept=found.books.rows, rejected=0))

    patch.setattr(LookupPlan, "advance", kernel)
    patch.setattr(LookupOracle, "tick", oracle)


def null_is_asked_for(patch: Patch) -> None:
    """Null is a key like any other."""

    class Key(tuple[Any, ...]):
        """A key in which nobody finds a null."""

        __slots__ = ()

        def __contains__(self, value: object) -> bool:
            return False

    rows, values = lookup.python_rows, LookupOracle._values
    patch.setattr(lookup, "python_rows", lambda *given: map(Key, rows(*given)))
    patch.setattr(LookupOracle, "_values", lambda *given: Key(values(*given)))

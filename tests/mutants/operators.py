"""The other decisions about joins and features: whom an interval speaks of, what waits, which end counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from strandline.kernel.operators.join import JoinPlan
from strandline.kernel.operators.over import OverPlan
from strandline.model.intervals import Interval
from strandline.model.nodes import JoinNode, OverNode
from strandline.model.oracle.join import JoinOracle
from strandline.model.oracle.over import OverOracle
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span

Patch: TypeAlias = pytest.MonkeyPatch


def an_interval_speaks_of_this_side(patch: Patch) -> None:
    """`After` says that this row comes after the other one."""

    def turned(node: JoinNode) -> JoinNode:
        assert isinstance(node.within, Interval)
        return replace(node, within=Interval(low=Span(-node.within.high), high=Span(-node.within.low)))

    for made in (JoinPlan, JoinOracle):
        _change_node(patch, made, turned)


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
        _change_node(patch, made, shorter)


def _change_node(patch: Patch, made: Any, change: Any) -> None:
    """Let something be made of another description than it is given."""
    make = made.__init__
    patch.setattr(made, "__init__", lambda self, node, *args, **options: make(self, change(node), *args, **options))

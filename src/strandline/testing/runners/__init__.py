"""How a play is run: one row at a time by the oracle, or in columns by the kernel.

A runner turns rows into batches of its own kind, does the stateless work on them, and makes a stage that steps from
tick to tick. What lies between (watermarks, the order of stages, crashes) is the play's and the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from strandline.errors import TranscriptError, did_you_mean
from strandline.model.flow import Flow, SelectNode, StageNode, WhereNode, WithColumnNode
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books

MOST_BUCKETS: Final = 65_536
Batch: TypeAlias = Any  # a list of dicts to the oracle, a DataFrame to the kernel
Stateless: TypeAlias = WhereNode | SelectNode | WithColumnNode


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What a stage gives in a tick."""

    panes: Batch
    late: Batch
    rejected: Batch
    replaced: Batch
    watermark: Instant
    books: Books


class StageRunner(Protocol):
    """A stage on its way from tick to tick."""

    def tick(self, batch: Batch, edge: Edge, now: Instant) -> StageOutcome:
        """Make one tick."""

    def encode(self) -> Any:
        """The state, in a form that later ticks do not change."""

    def restore(self, kept: Any) -> None:
        """Go on from what `encode` gave."""

    def same(self, one: Any, other: Any) -> bool:
        """Whether two encoded states are alike, to the byte where there are bytes."""


class Runner(Protocol):
    """Does the work of nodes on batches of its own kind."""

    def read(self, rows: list[dict[str, Any]], schema: Schema) -> Batch:
        """Rows as a batch; columns that start with two underscores are whole numbers."""

    def stateless(self, node: Stateless, batch: Batch, now: Instant) -> Batch:
        """Rows filtered, or made anew; what is hidden is carried along."""

    def stage(self, node: StageNode) -> StageRunner:
        """A stage that has seen nothing."""

    def rows(self, batch: Batch) -> list[dict[str, Any]]:
        """A batch as rows, without what is hidden."""


def make_runner(name: str, flow: Flow, options: dict[str, Any]) -> Runner:
    """The runner of that name, with its options checked."""
    if not isinstance(name, str) or name not in _MAKERS:
        hint = "It comes with the Spark runtime." if name == "spark" else did_you_mean(str(name), _MAKERS)
        raise TranscriptError(f"There is no runner {name!r}.", fix=f"Use runner='oracle' or 'kernel'. {hint}")
    make, known = _MAKERS[name]
    for option, value in options.items():
        if option not in known:
            raise TranscriptError(f"The runner {name!r} has no option {option!r}.", fix=did_you_mean(option, known))
        _require_count(option, value)
    return make(flow, options)


def _require_count(option: str, value: object) -> None:
    most = {"buckets": MOST_BUCKETS}.get(option)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= (most or value):
        return
    if option == "buckets" and value is None:  # the flow's own
        return
    raise TranscriptError(
        f"{option}={value!r} is no number of {option}.",
        fix=f"Give a whole number from 1{f' to {most}' if most else ''}, such as {option}=3.",
    )


def _oracle(flow: Flow, options: dict[str, Any]) -> Runner:
    from strandline.testing.runners.oracle import OracleRunner

    return OracleRunner(flow)


def _kernel(flow: Flow, options: dict[str, Any]) -> Runner:
    from strandline.testing.runners.kernel import KernelRunner

    return KernelRunner(flow, **options)


_MAKERS: dict[str, tuple[Callable[[Flow, dict[str, Any]], Runner], tuple[str, ...]]] = {
    "oracle": (_oracle, ()),
    "kernel": (_kernel, ("buckets", "tasks")),
}

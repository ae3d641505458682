"""How a play is run: one row at a time by the oracle, in columns by the kernel, or by the engine on Spark.

A runner turns rows into batches of its own kind, does the stateless work on them, and makes a stage that steps from
tick to tick. What lies between (watermarks, the order of stages, crashes) is the play's and the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeAlias

from strandline.errors import TranscriptError, did_you_mean
from strandline.model.flow import Flow
from strandline.model.nodes import SelectNode, Stateful, WhereNode, WithColumnNode
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books, PlayedTick
from strandline.testing.steps import Step

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
    sides: Mapping[str, Batch] = field(default_factory=dict)


class StageRunner(Protocol):
    """A stage on its way from tick to tick."""

    def tick(self, batches: Sequence[Batch], edge: Edge, now: Instant) -> StageOutcome:
        """Make one tick with what came at each port; `edge` is that of the whole input."""

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

    def stage(self, node: Stateful) -> StageRunner:
        """A stage that has seen nothing."""

    def rows(self, batch: Batch) -> list[dict[str, Any]]:
        """A batch as rows, without what is hidden."""


def make_runner(name: str, flow: Flow, options: dict[str, Any]) -> Runner:
    """The runner of that name, with its options checked."""
    if not isinstance(name, str) or name not in _MAKERS:
        hint = did_you_mean(str(name), (*_MAKERS, "spark"))
        raise TranscriptError(f"There is no runner {name!r}.", fix=f"Use runner='oracle', 'kernel' or 'spark'. {hint}")
    make, known = _MAKERS[name]
    _require_options(name, options, known)
    return make(flow, options)


def play_with_spark(flow: Flow, steps: Sequence[Step], options: dict[str, Any]) -> Iterable[PlayedTick]:
    """Play a flow up to its last node on Spark, which does its own driving."""
    _require_options("spark", {name: value for name, value in options.items() if name != "spark"}, ("buckets", "tasks"))
    if find_spec("pyspark") is None:
        raise TranscriptError(
            "There is no PySpark to play with.",
            fix="Install it: pip install 'strandline[spark]'; or use runner='kernel'.",
        )
    from strandline.testing.runners.spark import play_on_spark

    buckets = options.get("buckets")
    return play_on_spark(flow if buckets is None else replace(flow, buckets=buckets), steps, options)


def _require_options(runner: str, options: dict[str, Any], known: Collection[str]) -> None:
    for option, value in options.items():
        if option not in known:
            raise TranscriptError(f"The runner {runner!r} has no option {option!r}.", fix=did_you_mean(option, known))
        _require_count(option, value)


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

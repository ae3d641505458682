"""A lookup in a step: each key is asked for once, all of them together, and the answers stand beside the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.errors import DataError
from strandline.kernel.advance import Advanced
from strandline.kernel.frames import changed, kept, no_rows, rows_at, without
from strandline.kernel.keys import hashed_keys, key_columns
from strandline.kernel.operators.plan import HASH, OperatorPlan, Taken, no_windows
from strandline.kernel.order import arrange
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_type
from strandline.kernel.state import State
from strandline.kernel.users import python_rows
from strandline.model.lookups import Asker, Failed, Key
from strandline.model.nodes import LookupNode
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.model.users import columns_said, no_answer, wrong_answer

Array = npt.NDArray[Any]
AskerOf: TypeAlias = Callable[[LookupNode, Schema], Asker]
"""How a lookup is put to work, for keys of these columns: what asks stands outside of the inner rings."""
DAY: Final = 86_400_000_000


class LookupPlan(OperatorPlan):
    """Keeps nothing: every row is answered, or rejected, in the tick that brings it."""

    meaning: ClassVar = ()
    keeps: ClassVar = False
    node: LookupNode

    def __init__(
        self, node: LookupNode, inputs: tuple[Schema, ...], lateness: Span, asker_of: AskerOf | None = None
    ) -> None:
        # Rows of a key go to one bucket, so that it is asked for once; or, where their order does not matter, to all.
        scalar = [name for name, kind in inputs[0].columns if kind.is_scalar]
        super().__init__(node, inputs, [node.on if node.ordered else scalar], lateness)
        self.asker_of = asker_of

    @cached_property
    def asker(self) -> Asker:
        """The lookup at work, made when it is first needed: once in each process."""
        assert self.asker_of is not None, "whoever steps a plan has said how to ask"
        return self.asker_of(self.node, Schema(tuple((name, self.inputs[0][name]) for name in self.node.on)))

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """None."""
        return {}

    @property
    def slice_width(self) -> int:
        """Any: there are no rows of state."""
        return DAY

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """Nothing is ever due without input."""
        return None

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Ask for what came. Pure but for those who answer: what they said is written down with the tick."""
        (rows,) = taken.ports
        answers, which = self._answers(rows, tick.now)
        order, _ = arrange(key_columns(self.keys[0], rows), np.zeros(rows.height, np.int64), rows[HASH].to_numpy())
        which = which[order]
        failed = np.array([isinstance(answer, Failed) for answer in answers], np.bool_)[which]
        ordered = without(rows_at(rows, order), [HASH])
        passed, aside = kept(ordered, ~failed), kept(ordered, failed)
        reasons = [answer.reason if isinstance(answer, Failed) else None for answer in answers]
        return Advanced(
            state=state, panes=changed(passed, self._columns(answers, which[~failed])),
            late=no_rows({**self.port_schema(0), "late_by": pl.Duration("us")}),
            rejected=changed(aside, {"reason": pl.Series(reasons, dtype=pl.String)[which[failed]]}), replaced=no_windows(),
            books=Books(rows=rows.height, kept=passed.height, rejected=aside.height), hold=None,
        )  # fmt: skip

    def _answers(self, rows: pl.DataFrame, now: Instant) -> tuple[list[dict[str, Any] | Failed], Array]:
        """What is answered for each key, and which of the answers is each row's."""
        keys, hashes = hashed_keys(self.node.on, rows)
        order, groups = arrange(keys, np.zeros(rows.height, np.int64), hashes)
        which = np.empty(rows.height, np.int64)
        which[order] = groups.ids
        distinct = [*python_rows(rows_at(keys, order[groups.starts]), keys.columns)] if rows.height else []
        answers = iter(self._asked([key for key in distinct if None not in key], now))
        nothing = dict.fromkeys(self.node.output)
        return [nothing if None in key else next(answers) for key in distinct], which

    def _asked(self, keys: Sequence[Key], now: Instant) -> list[dict[str, Any] | Failed]:
        if not keys:
            return []
        return [self._judged(key, answer) for key, answer in zip(keys, self.asker.ask(keys, now), strict=True)]

    def _judged(self, key: Key, answer: Any) -> dict[str, Any] | Failed:
        if not isinstance(answer, Failed):
            try:
                return columns_said(self.node.lookup, self.node.output, answer)
            except DataError as error:
                answer = wrong_answer(self.node.lookup, error)
        if self.node.on_error == "fail":
            raise no_answer(self.node.name, self.node.on, key, answer)
        return dict.fromkeys(self.node.output) if self.node.on_error == "null" else answer

    def _columns(self, answers: Sequence[dict[str, Any] | Failed], which: Array) -> dict[str, pl.Series]:
        """The columns that the answers add to rows."""
        found = {}
        for name, kind in self.node.output.columns:
            values = [None if isinstance(answer, Failed) else answer[name] for answer in answers]
            found[name] = pl.Series(values, dtype=polars_type(kind))[which]
        return found

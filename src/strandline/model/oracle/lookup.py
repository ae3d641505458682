"""A lookup, one row at a time: each key is asked for once a tick, and every row has its answer, or is rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strandline.errors import DataError
from strandline.model.lookups import Asker, Failed, Key
from strandline.model.nodes import LookupNode
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.model.users import columns_said, no_answer, wrong_answer


class LookupOracle:
    """Remembers nothing."""

    def __init__(self, node: LookupNode, *, asker: Asker, schemas: Sequence[Schema]) -> None:
        self.node, self.asker, (self.schema,) = node, asker, schemas
        scalar = [name for name, kind in self.schema.columns if kind.element is None and kind.name != "struct"]
        self.by = list(node.on) if node.ordered else scalar

    def __deepcopy__(self, memo: dict[int, Any]) -> LookupOracle:
        """Itself: there is nothing that a later tick could change."""
        return self

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Ask for each key when its first row comes; null is not asked for."""
        (rows,) = batches
        answers: dict[object, dict[str, Any] | Failed] = {}
        shown, rejected = [], []
        for row in rows:
            key = self._values(row, self.node.on)
            known = tuple(map(rank, key))
            if known not in answers:
                answers[known] = dict.fromkeys(self.node.output) if None in key else self._answer(key, now)
            answer = answers[known]
            if isinstance(answer, Failed):
                rejected.append({**row, "reason": answer.reason})
            else:
                shown.append((self._values(row, self.by), {**row, **answer}))
        return Outcome(
            panes=in_order_of_keys(shown), late=[], rejected=rejected, replaced=[], watermark=edge.after,
            books=Books(rows=len(rows), kept=len(shown), late=0, rejected=len(rejected), missed=0),
        )  # fmt: skip

    def _values(self, row: Row, names: Sequence[str]) -> Key:
        return tuple(canonical(row[name], self.schema[name]) for name in names)

    def _answer(self, key: Key, now: Instant) -> dict[str, Any] | Failed:
        (answer,) = self.asker.ask([key], now)
        if not isinstance(answer, Failed):
            try:
                return columns_said(self.node.lookup, self.node.output, answer)
            except DataError as error:
                answer = wrong_answer(self.node.lookup, error)
        if self.node.on_error == "fail":
            raise no_answer(self.node.name, self.node.on, key, answer)
        return dict.fromkeys(self.node.output) if self.node.on_error == "null" else answer

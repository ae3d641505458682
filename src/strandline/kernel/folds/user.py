"""A user's own aggregate: plain Python, its accumulators as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.kernel.folds.fold import Fields, Parts
from strandline.kernel.groups import Array, Groups
from strandline.kernel.users import python_rows
from strandline.model.aggregates import Aggregate
from strandline.model.users import ask, kept_text, output_of


@dataclass(frozen=True, slots=True)
class UserFold:
    """A loop over rows that calls the user's methods."""

    aggregate: Aggregate
    output: pl.DataType
    fields: Fields = (("json", pl.String()),)

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Add each row of a group, or remove it where its weight is negative, to a fresh accumulator."""
        values = list(python_rows(rows, self.aggregate.columns))
        times_each = [1] * groups.length if weights is None else weights.tolist()
        texts, start_text = [], self._start()
        for start, end in _ranges(groups):
            held = json.loads(start_text)  # each its own, though `start` should give the same list every time
            for row, weight in zip(values[start:end], times_each[start:end], strict=True):
                held = self._add(held, row, weight)
            texts.append(kept_text(self.aggregate, held))
        return self._parts(texts)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Merge the accumulators of each group from the first to the last."""
        if groups.all_single:
            return parts
        held, who = [json.loads(text) for text in parts[0].to_list()], f"{self._name}.merge"
        texts = []
        for start, end in _ranges(groups):
            merged = held[start]
            for other in held[start + 1 : end]:
                merged = ask(who, self.aggregate.merge, merged, other)
            texts.append(kept_text(self.aggregate, merged))
        return self._parts(texts)

    def show(self, parts: Parts) -> pl.Series:
        """What the user's `output` gives, as the type that `result` says."""
        shown = [output_of(self.aggregate, json.loads(text)) for text in parts[0].to_list()]
        return pl.Series(shown, dtype=self.output, strict=True)

    def empty(self, count: int) -> Parts:
        """The user's start."""
        return self._parts([self._start()] * count)

    @property
    def _name(self) -> str:
        return type(self.aggregate).__name__

    def _start(self) -> str:
        return kept_text(self.aggregate, ask(f"{self._name}.start", self.aggregate.start))

    def _add(self, held: Any, row: tuple[Any, ...], weight: int) -> Any:
        if weight >= 0:
            return ask(f"{self._name}.add", self.aggregate.add, held, *row)
        remove = getattr(self.aggregate, "remove", None)
        if remove is None:
            raise DataError(
                f"{self._name} cannot take rows back.", fix=f"Define {self._name}.remove(accumulator, *values)."
            )
        return ask(f"{self._name}.remove", remove, held, *row)

    def _parts(self, texts: list[str]) -> Parts:
        return [pl.Series("json", texts, dtype=pl.String)]


def _ranges(groups: Groups) -> Iterator[tuple[int, int]]:
    ends = np.append(groups.starts, groups.length)
    return zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)

"""Rows that stand together, and arithmetic over each group of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)  # no slots: what many aggregates ask of the same groups is kept
class Groups:
    """Rows that stand together: group i is rows[starts[i]:starts[i + 1]].

    Law: no group is empty, and the groups cover all rows in order.

    >>> g = Groups.of_lengths([2, 1])
    >>> g.ids, g.lengths
    (array([0, 0, 1]), array([2, 1]))
    """

    starts: Array
    length: int

    @classmethod
    def of_lengths(cls, lengths: npt.ArrayLike) -> Groups:
        """Groups of these lengths (each at least 1), one behind the other."""
        ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
        return cls(np.concatenate([[0], ends[:-1]]) if len(ends) else ends, int(ends[-1]) if len(ends) else 0)

    @classmethod
    def of_ids(cls, ids: Array) -> Groups:
        """Groups of equal neighbours.

        >>> Groups.of_ids(np.array([7, 7, 3])).starts
        array([0, 2])
        """
        if not len(ids):
            return cls(np.zeros(0, dtype=np.int64), 0)
        changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        return cls(np.concatenate([np.zeros(1, dtype=np.int64), changes]), len(ids))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.starts)

    @cached_property
    def lengths(self) -> Array:
        """How many rows each group has."""
        return np.diff(self.starts, append=self.length)

    @cached_property
    def ids(self) -> Array:
        """The number of each row's group."""
        return np.repeat(np.arange(self.count), self.lengths)

    @property
    def all_single(self) -> bool:
        """Whether every group is one row, so that there is nothing to add up."""
        return self.length == self.count

    @cached_property
    def _others(self) -> tuple[Array, Array]:
        """The rows that do not start a group, and their groups."""
        others = np.ones(self.length, dtype=bool)
        others[self.starts] = False
        rows = np.flatnonzero(others)
        # Before the j-th of them stand as many starts as there are rows before it, less j.
        return rows, rows - np.arange(1, len(rows) + 1)

    def reduce(self, operation: np.ufunc, values: Array) -> Array:
        """Join the values of each group by an operation that does not mind the order.

        >>> Groups.of_lengths([2, 1]).reduce(np.multiply, np.array([2, 3, 5]))
        array([6, 5])
        """
        if self.all_single:
            return values
        # A NaN is no accident here, so it warns nobody.
        with np.errstate(invalid="ignore"):
            return self._reduce(operation, values)

    def _reduce(self, operation: np.ufunc, values: Array) -> Array:
        if self.length > 2 * self.count:
            return operation.reduceat(values, self.starts)
        # Most groups are one row: to start with the first rows and join the others is three times as fast.
        rows, owners = self._others
        result = values.take(self.starts)
        operation.at(result, owners, values[rows])
        return result

    def add(self, values: Array) -> Array:
        """The sum of each group."""
        return self.reduce(np.add, values)

    def least(self, values: Array) -> Array:
        """The least value of each group; NaN is greater than every number."""
        return self.reduce(np.fmin if values.dtype.kind == "f" else np.minimum, values)

    def greatest(self, values: Array) -> Array:
        """The greatest value of each group; NaN is greater than every number."""
        return self.reduce(np.maximum, values)

    def any_bits(self, values: Array) -> Array:
        """The bits that are set anywhere in each group."""
        if len(values) and (values == values[0]).all():
            return np.full(self.count, values[0])
        return self.reduce(np.bitwise_or, values)

    def spread(self, per_group: Array) -> Array:
        """Each group's value, at each of its rows."""
        return per_group if self.all_single else np.repeat(per_group, self.lengths)

    def keep(self, chosen: Array) -> tuple[Groups, Array]:
        """The groups of the chosen rows alone, and which of these groups they are.

        >>> some, which = Groups.of_lengths([2, 1, 1]).keep(np.array([True, False, False, True]))
        >>> some.lengths, which
        (array([1, 1]), array([0, 2]))
        """
        if not self.count:
            return self, np.zeros(0, dtype=np.int64)
        left = np.add.reduceat(chosen, self.starts, dtype=np.int64)
        present = np.flatnonzero(left)
        return Groups.of_lengths(left[present]), present

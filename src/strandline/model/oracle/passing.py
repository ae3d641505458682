"""What goes into a stage in a tick, and what comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from strandline.model.hashing import hash_values
from strandline.model.oracle.living import Key, Living, Pane
from strandline.model.oracle.values import Entry, Row, rank
from strandline.model.oracle.windows import Component, Interval
from strandline.model.ticks import Edge
from strandline.model.time import Instant


@dataclass(frozen=True)
class Books:
    """Where the rows of a tick went.

    Law: rows = kept + late + rejected. `missed` counts pairs of an event and a window.
    """

    rows: int
    kept: int
    late: int
    rejected: int
    missed: int


@dataclass(frozen=True)
class Outcome:
    """What a stage gives in a tick."""

    panes: list[Pane]
    late: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    replaced: list[dict[str, Any]]
    watermark: Instant
    books: Books
    sides: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(eq=False)
class Arrival:
    """An event on its way into its windows; it has missed those that are gone."""

    number: int
    row: Row
    entry: Entry
    key: Key
    values: tuple[Any, ...]
    windows: list[Interval]
    missed: list[Component[Any]] = field(default_factory=list)


@dataclass(eq=False)
class Tick:
    """A tick, and what has been shown in it: each pane with the window that showed it."""

    edge: Edge
    now: Instant
    shown: list[tuple[Living, Pane]] = field(default_factory=list)
    replaced: list[dict[str, Any]] = field(default_factory=list)


def arrivals_of(component: Component[Living | Arrival]) -> list[Arrival]:
    """The events of a component, each once, in the order in which they came."""
    found = {member.number: member for member in component.members if isinstance(member, Arrival)}
    return [found[number] for number in sorted(found)]


def in_order_of_keys(shown: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows by the hash of their key, given beside each; those of one key in the order in which they are given."""
    ordered = sorted(shown, key=lambda each: (hash_values(each[0]), tuple(map(rank, each[0]))))
    return [row for _, row in ordered]

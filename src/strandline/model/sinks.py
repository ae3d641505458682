"""What leaves a flow: which rows, under which key, and whether a later row may withdraw an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from strandline.errors import DescriptionError, told
from strandline.model.chaining import steps_to
from strandline.model.firing import fires_once
from strandline.model.lineage import lateness_of, retracts, schema_of, windows_of
from strandline.model.nodes import (
    Node,
    RowsMode,
    SelectNode,
    Sink,
    SinkNode,
    StageNode,
    TableNode,
    TransformNode,
    WithColumnNode,
    nearest,
    origin_of,
    stage_before,
)  # fmt: skip
from strandline.model.panes import HIDDEN, PANE_COLUMNS, WINDOW_COLUMNS
from strandline.model.syntax import ColumnRef
from strandline.model.types import Schema
from strandline.model.windows import Global

OP: Final = "op"
WINDOW: Final = tuple(name for name, _ in WINDOW_COLUMNS)


def describe_sink(
    node: Node,
    name: str,
    sink: Sink,
    *,
    rows: RowsMode | None = None,
    key: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    max_lag: int | None = None,
) -> SinkNode:
    """A sink behind a node, with what was left unsaid filled in; refuses what makes no sense by itself."""
    _require_sink(sink)
    mode = _rows(node, name, rows)
    if isinstance(max_lag, bool) or not (max_lag is None or (isinstance(max_lag, int) and max_lag >= 1)):
        raise DescriptionError(
            f"max_lag={told(max_lag)} is no number of ticks.",
            fix="Give a whole number from 1, or leave it out: the flow then waits for the sink at every tick.",
        )
    named = _names("key", (key,) if isinstance(key, str) else key)
    return SinkNode(
        name=name,
        parent=node,
        sink=sink,
        rows=mode,
        key=(default_key(node) if mode == "upsert" else ()) if named is None else named,
        columns=_names("columns", columns),
        max_lag=max_lag,
    )


def delivered(sink: SinkNode) -> Schema | None:
    """The columns that a sink gets; None where only Spark knows.

    Changelogs and upserts say by an `op` of their own what happens to a row, so the stream's is not among them.
    """
    schema = schema_of(sink.parent)
    if schema is None:
        return None
    names = [*schema] if sink.columns is None else sink.columns
    return Schema(tuple((name, schema[name]) for name in names if sink.rows == "append" or name != OP))


def refines(node: Node) -> bool:
    """Whether a node's rows may show a window again, or withdraw what was shown."""
    stage = stage_before(node)
    return retracts(node) or (stage is not None and shows_again(stage))


def shows_again(stage: StageNode) -> bool:
    """Whether an accumulating stage may show a window more than once, each time all of it."""
    return stage.mode == "accumulating" and not fires_once(stage.trigger, lateness_of(stage))


def names_since(stage: StageNode, node: Node) -> dict[str, str]:
    """What the columns of a stage's panes are called at a node behind it, as far as they came through unchanged."""
    own = (*stage.keys, *WINDOW, *(name for name, _ in stage.aggregates), *(name for name, _ in PANE_COLUMNS))
    return came_through(own, node)


def came_through(columns: Iterable[str], node: Node) -> dict[str, str]:
    """What columns of the source or stage before a node are called there, as far as they came through unchanged.

    A transform is trusted to leave the columns that it keeps as they are.
    """
    names = {name: name for name in columns}
    for step in steps_to(node):
        names = _renamed(names, step)
    return names


def own_op(node: Node) -> str | None:
    """What the column is called at a node that says what is taken back; None where there is none, or not any more."""
    before = nearest(node)
    return came_through((OP,), node).get(OP) if isinstance(before, StageNode) or retracts(before) else None


def _renamed(names: dict[str, str], step: Node) -> dict[str, str]:
    if isinstance(step, SelectNode):
        found: dict[str, str] = {}
        for original, called in names.items():
            copies = [c.name for c in step.columns if c.root == ColumnRef(called) and c.name is not None]
            if copies:
                found[original] = called if called in copies else copies[0]
        return found
    if isinstance(step, WithColumnNode) and step.expression.root != ColumnRef(step.name):
        return {original: called for original, called in names.items() if called != step.name}
    if isinstance(step, TransformNode) and step.schema is not None:
        return {original: called for original, called in names.items() if called in step.schema}
    return names


def default_key(node: Node) -> tuple[str, ...]:
    """The columns that tell the panes of a stage apart: its keys and the window; () where they are not all there.

    The one window for all time need not be among them.
    """
    table = nearest(node)
    if isinstance(table, TableNode):
        called = came_through(table.key, node)
        return tuple(called[name] for name in table.key) if all(name in called for name in table.key) else ()
    stage = stage_before(node)
    if stage is None:
        return ()
    names = names_since(stage, node)
    window = [name for name in WINDOW if name in names] if isinstance(windows_of(stage), Global) else WINDOW
    wanted = (*stage.keys, *window)
    return tuple(names[name] for name in wanted) if all(name in names for name in wanted) else ()


def _require_sink(sink: object) -> None:
    if isinstance(sink, type) or not (
        isinstance(getattr(sink, "guarantee", None), str)
        and isinstance(getattr(sink, "takes", None), frozenset)
        and callable(getattr(sink, "prepare", None))
    ):
        raise DescriptionError(
            f"{told(sink)} is no sink: it lacks guarantee, takes or prepare.",
            fix="Write what .write(...) gives, such as sl.Files('out').write(format='json').",
        )


def _rows(node: Node, name: str, rows: object) -> RowsMode:
    known: tuple[RowsMode, ...] = get_args(RowsMode)
    if rows is None:
        if not refines(node):
            return "append"
        stage = stage_before(node)
        what = f"a row that is corrected, and {origin_of(node).name!r} may correct one"
        if stage is not None:
            what = f"a window that is shown again, and the stage {stage.name!r} (mode={stage.mode!r}) may show one more than once"
        raise DescriptionError(
            f"The sink {name!r} does not say what becomes of {what}.",
            fix="Write rows='upsert' to keep the row that stands, rows='changelog' to write each change with its op, "
            "or rows='append' to write every pane.",
        )
    for mode in known:
        if rows == mode:
            return mode
    raise DescriptionError(f"rows={told(rows)} is not known.", fix=f"Give one of {', '.join(map(repr, known))}.")


def _names(option: str, names: object) -> tuple[str, ...] | None:
    """Names of columns: at least one, each once, none of Strandline's own."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) and n for n in names):
        raise DescriptionError(
            f"{option}={told(names)} is no list of columns.", fix=f"Name them as text: {option}=['user', 'total']."
        )
    if not names:
        raise DescriptionError(f"{option}=[] names no column.", fix=f"Name some, or leave {option}= out.")
    for name in names:
        if list(names).count(name) > 1:
            raise DescriptionError(f"{option}= names {name!r} more than once.", fix="Name it once.")
        if name.startswith(HIDDEN):
            raise DescriptionError(
                f"{option}= names {name!r}; names that start with '{HIDDEN}' are kept for Strandline.",
                fix="Name a column that the stream shows.",
            )
    return tuple(names)

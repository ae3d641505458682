"""May these rows go into that sink? What a sink would be told, and could not undo.

`SINK_RULES` reads as the plan: each rule looks at one sink and yields what is wrong with it. The columns are None where
only Spark knows them; then a rule says what it can without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from strandline.errors import DescriptionError, StrandlineError, did_you_mean
from strandline.model.chaining import steps_to
from strandline.model.fitting import Problems
from strandline.model.lineage import merging, schema_of, windows_of
from strandline.model.nodes import (
    SinkNode,
    StageNode,
    TableNode,
    TransformNode,
    WhereNode,
    nearest,
    origin_of,
    stage_before,
)  # fmt: skip
from strandline.model.sinks import OP, WINDOW, came_through, names_since, own_op, refines, shows_again
from strandline.model.types import Schema
from strandline.model.windows import Global


def check_sink(sink: SinkNode) -> list[StrandlineError]:
    """What is wrong with a sink, given that what comes before it is right."""
    try:
        schema = schema_of(sink.parent)
    except StrandlineError:
        return []  # the node before it is wrong, and says so itself
    return [problem for rule in SINK_RULES for problem in rule(sink, schema)]


def sink_risks(sink: SinkNode) -> list[str]:
    """What a sink is allowed to do and may still surprise."""
    return [*_shown_again(sink), *_overwritten(sink)]


def _takes(sink: SinkNode, schema: Schema | None) -> Problems:
    if sink.rows not in sink.sink.takes:
        taken = " or ".join(f"rows={mode!r}" for mode in sorted(sink.sink.takes)) or "none"
        yield DescriptionError(
            f"The sink {sink.name!r} is to take rows={sink.rows!r}, which {type(sink.sink).__name__} cannot do.",
            fix=f"It takes {taken}.",
        )


def _columns(sink: SinkNode, schema: Schema | None) -> Problems:
    for name in sink.columns or ():
        if schema is not None and name not in schema:
            yield DescriptionError(
                f"columns= of sink {sink.name!r} names {name!r}, which is not there.", fix=did_you_mean(name, schema)
            )
    if sink.rows != "append" and sink.columns == (OP,):
        yield DescriptionError(
            f"columns= of sink {sink.name!r} names only {OP!r}, which rows={sink.rows!r} writes by itself.",
            fix="Name the columns of the rows too.",
        )


def _key(sink: SinkNode, schema: Schema | None) -> Problems:
    for name in sink.key:
        if schema is not None and name not in schema:
            yield DescriptionError(
                f"The key of sink {sink.name!r} names {name!r}, which is not there.", fix=did_you_mean(name, schema)
            )
        elif schema is not None and not schema[name].is_scalar:
            yield DescriptionError(
                f"The key of sink {sink.name!r} names {name!r} of type {schema[name]}.",
                fix="Use a scalar part of it.",
            )
        if name == OP and sink.rows != "append":
            yield DescriptionError(
                f"The key of sink {sink.name!r} names {OP!r}, which says what happens to a row.",
                fix="Name the columns that tell rows apart.",
            )
        elif sink.columns is not None and name not in sink.columns:
            yield DescriptionError(
                f"columns= of sink {sink.name!r} leaves out {name!r}, which its key needs.",
                fix=f"Write columns={[*sink.columns, name]!r}.",
            )


def _keyless(sink: SinkNode, schema: Schema | None) -> Problems:
    if sink.rows != "upsert" or sink.key:
        return
    stage = stage_before(sink.parent)
    if stage is None:
        yield DescriptionError(
            f"The sink {sink.name!r} upserts without a key: nothing says which row replaces which.",
            fix="Name the columns that tell rows apart: key=['user'].",
        )
        return
    names = names_since(stage, sink.parent)
    lost = [name for name in (*stage.keys, *WINDOW) if name not in names]
    yield DescriptionError(
        f"The sink {sink.name!r} upserts without a key: {', '.join(map(repr, lost))} of stage {stage.name!r} did not come "
        "through, so nothing says which row replaces which.",
        fix="Keep them in .select(...), or name the columns that tell rows apart: key=['user', 'window_start'].",
    )


def _refinements(sink: SinkNode, schema: Schema | None) -> Problems:
    """A row that is shown again, or withdrawn, must be told from one that is new."""
    stage = stage_before(sink.parent)
    if stage is None or not refines(sink.parent):
        return
    op = names_since(stage, sink.parent).get(OP)
    withdraws = stage.mode == "retracting"
    what = "takes panes back" if withdraws else "can show a window more than once, each time all of it"
    if sink.rows == "append":
        if op is None or (sink.columns is not None and op not in sink.columns):
            yield DescriptionError(
                f"The sink {sink.name!r} appends rows without {OP!r}, and the stage {stage.name!r} {what}: a reader could not "
                "tell, and would count twice.",
                fix=f"Keep {op or OP!r} among the columns, use rows='upsert', or show each window once: AfterClose().",
            )
    elif withdraws and op != OP:
        yield DescriptionError(
            f"The sink {sink.name!r} is to take rows={sink.rows!r}, and the column {OP!r} of stage {stage.name!r}, which says "
            "what is taken back, did not come through.",
            fix=f"Keep {OP!r} in .select(...), under that name; columns= may leave it out.",
        )


def _corrections(sink: SinkNode, schema: Schema | None) -> Problems:
    """The same for rows of a table, and for events that are corrected."""
    if stage_before(sink.parent) is not None or not refines(sink.parent):
        return
    op, columns = own_op(sink.parent), sink.columns
    lost = op is None or (columns is not None and op not in columns) if sink.rows == "append" else op != OP
    if lost:
        yield DescriptionError(
            f"The sink {sink.name!r} does not get {OP!r}, which says what {origin_of(sink.parent).name!r} corrects.",
            fix=f"Keep {OP!r} in .select(...)" + (" and among the columns." if sink.rows == "append" else "."),
        )


def _deltas(sink: SinkNode, schema: Schema | None) -> Problems:
    stage = stage_before(sink.parent)
    if stage is not None and stage.mode == "discarding" and sink.rows == "upsert":
        yield DescriptionError(
            f"The sink {sink.name!r} upserts panes of stage {stage.name!r}, which is discarding: each pane is only what is "
            "new, and would replace what came before it.",
            fix=f"Let {stage.name!r} be mode='accumulating' or 'retracting', or append its panes.",
        )


def _shared_key(sink: SinkNode, schema: Schema | None) -> Problems:
    stage = stage_before(sink.parent)
    if stage is None or sink.rows != "upsert" or stage.mode != "retracting" or not sink.key:
        return
    if missing := _untold(sink, stage):
        yield DescriptionError(
            f"The key of sink {sink.name!r} lacks {missing}, and the stage {stage.name!r} takes panes back: one that is taken "
            "back would delete the row of another.",
            fix="Leave key= out: the stage's keys and its window are the key then.",
        )


def _shared_key_of_a_table(sink: SinkNode, schema: Schema | None) -> Problems:
    table = nearest(sink.parent)
    if not isinstance(table, TableNode) or sink.rows != "upsert" or not sink.key:
        return
    names = came_through(table.key, sink.parent)
    if missing := " and ".join(repr(key) for key in table.key if names.get(key) not in sink.key):
        yield DescriptionError(
            f"The key of sink {sink.name!r} lacks {missing}, and the table {table.name!r} takes rows back: one that is taken "
            "back would delete the row of another.",
            fix="Leave key= out: the table's key is the key then.",
        )


def _untold(sink: SinkNode, stage: StageNode) -> str:
    """What is missing in a sink's key to tell the panes of a stage apart; "" when nothing is."""
    names = names_since(stage, sink.parent)
    missing = [repr(key) for key in stage.keys if names.get(key) not in sink.key]
    if not isinstance(windows_of(stage), Global) and not any(names.get(name) in sink.key for name in WINDOW):
        missing.append("the window")
    return " and ".join(missing)


def _ghosts(sink: SinkNode, schema: Schema | None) -> Problems:
    """Windows that merge leave rows behind, which are deleted by the key and window they were shown with."""
    stage = stage_before(sink.parent)
    if stage is None or sink.rows != "upsert" or not (shows_again(stage) and merging(windows_of(stage))):
        return
    for step in steps_to(sink.parent):
        if isinstance(step, TransformNode):
            yield DescriptionError(
                f"Between stage {stage.name!r}, whose windows merge, and the sink {sink.name!r}, which upserts, stands "
                f"{step.name!r}, which only Spark can run: the rows of windows that were replaced would stay.",
                fix=f"Let {stage.name!r} be mode='retracting', or do this work before it.",
            )
    names = names_since(stage, sink.parent)
    known = {names[name] for name in (*stage.keys, *WINDOW) if name in names}
    for name in sink.key:
        if name not in known and (schema is None or name in schema):
            yield DescriptionError(
                f"The key of sink {sink.name!r} names {name!r}, which is no key and no window of stage {stage.name!r}: when its "
                "windows merge, nothing says whose row is to be deleted.",
                fix=f"Leave key= out, or let {stage.name!r} be mode='retracting'.",
            )


def _filtered(sink: SinkNode, schema: Schema | None) -> Problems:
    """A pane that no longer passes a filter leaves the row of the pane before it, which did."""
    stage = stage_before(sink.parent)
    if stage is None or sink.rows != "upsert" or not shows_again(stage):
        return
    for step in steps_to(sink.parent):
        if isinstance(step, WhereNode):
            names = names_since(stage, step.parent)
            fixed = {names[name] for name in (*stage.keys, *WINDOW) if name in names}
            if changing := sorted(step.condition.references - fixed):
                yield DescriptionError(
                    f"Before the sink {sink.name!r}, which upserts, .where({step.condition.text!r}) asks for "
                    f"{', '.join(changing)}: a window of stage {stage.name!r} that is shown again, and does not pass any more, "
                    "would keep its old row.",
                    fix=f"Let {stage.name!r} be mode='retracting', or ask only for its keys and window.",
                )


def _foreign_op(sink: SinkNode, schema: Schema | None) -> Problems:
    """In a changelog or an upsert `op` is Strandline's word."""
    if sink.rows == "append" or schema is None or OP not in schema:
        return
    if own_op(sink.parent) != OP:
        yield DescriptionError(
            f"The rows of sink {sink.name!r} have a column {OP!r} of their own, and rows={sink.rows!r} writes another.",
            fix=f"Rename it before the sink, with .select('{OP} as event_{OP}', ...), or use rows='append'.",
        )


def _shown_again(sink: SinkNode) -> Iterator[str]:
    stage = stage_before(sink.parent)
    if stage is not None and sink.rows != "upsert" and shows_again(stage):
        yield (
            f"The sink {sink.name!r} gets a window of stage {stage.name!r} once more each time it is shown, always all of it: "
            "a reader takes the row with the greatest pane_index. rows='upsert' keeps one row."
        )


def _overwritten(sink: SinkNode) -> Iterator[str]:
    stage = stage_before(sink.parent)
    if stage is None or sink.rows != "upsert" or stage.mode != "accumulating":
        return
    if missing := _untold(sink, stage):
        yield (
            f"The key of sink {sink.name!r} lacks {missing}: several panes of stage {stage.name!r} share one row, and the one "
            "that is shown last stands."
        )


SINK_RULES: Final[tuple[Callable[[SinkNode, Schema | None], Problems], ...]] = (
    _takes,
    _columns,
    _key,
    _keyless,
    _refinements,
    _corrections,
    _deltas,
    _shared_key,
    _shared_key_of_a_table,
    _ghosts,
    _filtered,
    _foreign_op,
)

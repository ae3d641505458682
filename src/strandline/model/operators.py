"""Stages other than windows: how each is described, and which columns its rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from strandline.errors import DescriptionError, told
from strandline.model.aggregates import BUILT_IN, Aggregate, Merge, within_of
from strandline.model.changelog import OP
from strandline.model.intervals import Interval
from strandline.model.lookups import Asked, BatchLookup, Cache, Lookup, OnError, batch_of
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    Emit,
    How,
    JoinNode,
    JoinTableNode,
    LookupNode,
    Match,
    Node,
    OperatorNode,
    Order,
    OverNode,
    ProcessNode,
    TableNode,
)  # fmt: skip
from strandline.model.options import require_boolean
from strandline.model.panes import SIDE, WINDOW_COLUMNS
from strandline.model.patterns import Pattern
from strandline.model.process import TTL, Process, TableProcess, Tables
from strandline.model.result_types import result_type
from strandline.model.salting import refuse_salt, salted
from strandline.model.time import Span
from strandline.model.types import Schema, Type, array_of, struct_of
from strandline.model.windows import SameWindow, Window

LEFT_ONLY = ("semi", "anti")
OWN_SIDES = ("late", "rejected", "replaced")


def describe_dedupe(
    node: Node, name: str, on: str | Sequence[str] | None, within: str | timedelta | Span | None, *, salt: object
) -> DedupeNode:
    """A stage that lets the first of equal rows through."""
    refuse_salt(name, salt)
    columns = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DescriptionError(
            f"on={told(on)} names no column.", fix="Name what tells rows apart: on='event_id', or on=['shop', 'order']."
        )
    if within is None:
        raise DescriptionError(
            f"The dedupe {name!r} does not say for how long rows are remembered: without within= that would be for ever.",
            fix="Give the time within which a row may be repeated: within='24h'.",
        )
    span = Span.of(within)
    if span <= 0:
        raise DescriptionError(
            f"within={span.text!r} is not positive.",
            fix="Give the time for which a row is remembered: within='24h'.",
        )
    return DedupeNode(name=name, parent=node, on=columns, within=span)


def describe_process(
    node: Node,
    keys: tuple[str, ...],
    name: str,
    process: object,
    *,
    output: object,
    side: object,
    order: object,
    ttl: object,
    salt: object,
) -> ProcessNode:
    """A stage of a user's own code; refuses what makes no sense by itself."""
    refuse_salt(name, salt)
    if not isinstance(process, type) or not issubclass(process, Process | TableProcess):
        raise DescriptionError(
            f"{told(process)} is no process.",
            fix="Derive a class from sl.Process (one event at a time) or sl.TableProcess, and give it without brackets.",
        )
    if issubclass(process, TableProcess) and process.tables not in get_args(Tables):
        raise DescriptionError(
            f"tables={told(process.tables)} of {process.__name__} is not known.", fix="Give 'polars' or 'arrow'."
        )
    if not isinstance(output, str | Schema):
        raise DescriptionError(
            f"output={told(output)} does not say which columns come out.",
            fix="Write them as a schema: output='user string, n bigint'.",
        )
    if not isinstance(side, Mapping):
        raise DescriptionError(
            f"side={told(side)} is no mapping.", fix="Write side={'alerts': 'user string, why string'}."
        )
    for each in side:
        if each in OWN_SIDES or not isinstance(each, str) or not each.replace("_", "").isalnum():
            raise DescriptionError(
                f"{told(each)} cannot be the name of a side of {name!r}.",
                fix=f"Use letters, digits and '_', and none of {', '.join(map(repr, OWN_SIDES))}.",
            )
    if not isinstance(ttl, TTL | None):
        raise DescriptionError(f"ttl={told(ttl)} is no TTL.", fix="Write ttl=sl.TTL('2h', since='write').")
    return ProcessNode(
        name=name, parent=node, keys=keys, process=process, output=Schema.of(output),
        sides=tuple((each, Schema.of(schema)) for each, schema in side.items()),
        order=_one_of("order", order, get_args(Order)), ttl=ttl,
    )  # fmt: skip


def describe_over(
    node: Node,
    keys: tuple[str, ...],
    name: str,
    features: Mapping[str, object],
    *,
    emit: object,
    include_current: object,
) -> OverNode:
    """A stage of features; refuses what makes no sense by itself."""
    require_boolean("include_current", include_current)
    if not isinstance(features.get("salt"), (*BUILT_IN, Aggregate)):  # any column may be called so
        refuse_salt(name, features.get("salt"))
    if not features:
        raise DescriptionError(f"The stage {name!r} computes nothing.", fix="Add one: n_1h=sl.Count(within='1h').")
    for column, aggregate in features.items():
        if isinstance(aggregate, Merge) or not isinstance(aggregate, (*BUILT_IN, Aggregate)):
            raise DescriptionError(
                f"{column}={told(aggregate)} is no feature.",
                fix="Write an aggregate with within=: sl.Mean('v', within='1h').",
            )
        if within_of(aggregate) is None:
            raise DescriptionError(
                f"The feature {column!r} of stage {name!r} does not say how far back it looks.",
                fix=f"Write sl.{type(aggregate).__name__}(..., within='1h').",
            )
    return OverNode(
        name=name, parent=node, keys=keys, features=tuple(features.items()),  # type: ignore[arg-type]
        emit=_one_of("emit", emit, get_args(Emit)), include_current=bool(include_current),
    )  # fmt: skip


def describe_table(node: Node, name: str, *, key: object, order: object, ttl: object, broadcast: object) -> TableNode:
    """A table of changes; refuses what makes no sense by itself."""
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DescriptionError(
            f"key={told(key)} names no column.", fix="Name what tells the rows of the table apart: key='user'."
        )
    if not isinstance(order, str) or not order:
        raise DescriptionError(
            f"order={told(order)} does not say which change is the newer one.",
            fix="Write order='offset' (the one that comes later), or name a column: order='updated_at'.",
        )
    require_boolean("broadcast", broadcast)
    return TableNode(name=name, parent=node, key=columns, order=order, ttl=_life(ttl), broadcast=bool(broadcast))


def _life(ttl: object) -> Span | None:
    if ttl is None:
        return None
    span = Span.of(ttl)  # type: ignore[arg-type]
    if span <= 0:
        raise DescriptionError(f"ttl={span.text!r} is not positive.", fix="Give the time that a row lives: ttl='30d'.")
    return span


def describe_join_table(
    node: Node, name: str, table: TableNode, *, on: object, as_of: object, how: object, max_wait: object, suffix: object
) -> JoinTableNode:
    """A join with a table; refuses what makes no sense by itself."""
    keys = table.key if on is None else (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    if len(keys) != len(table.key) or not all(isinstance(key, str) for key in keys):
        raise DescriptionError(
            f"on={told(on)} does not pair up with the key of table {table.name!r}: {', '.join(table.key)}.",
            fix=f"Name a column of the stream for each: on={list(table.key)!r}.",
        )
    require_boolean("as_of", as_of)
    wait = None if max_wait is None else Span.of(max_wait)  # type: ignore[arg-type]
    if wait is not None and (wait <= 0 or not as_of):
        raise DescriptionError(
            f"max_wait={wait.text!r} bounds nothing: {'rows wait only with as_of=True' if not as_of else 'it is not positive'}.",
            fix="Leave it out, or write as_of=True with such as max_wait='5m'.",
        )
    if not isinstance(suffix, str) or not suffix:
        raise DescriptionError(f"suffix={told(suffix)} is no text.", fix="Write suffix='_table'.")
    return JoinTableNode(
        name=name, parent=node, other=table.parent, keys=keys, other_keys=table.key, order=table.order, ttl=table.ttl,
        as_of=bool(as_of), how=_one_of("how", how, ("left", "inner")), max_wait=wait, suffix=suffix,
        broadcast=table.broadcast,
    )  # fmt: skip


def describe_detect(node: Node, keys: tuple[str, ...], name: str, pattern: object, *, salt: object) -> DetectNode:
    """A stage that looks for a pattern."""
    refuse_salt(name, salt)
    if not isinstance(pattern, Pattern):
        raise DescriptionError(
            f"{told(pattern)} is no pattern.",
            fix="Write sl.sequence(sl.step('a', '...'), sl.step('b', '...'), within='10m').",
        )
    return DetectNode(name=name, parent=node, keys=keys, pattern=pattern)


def describe_lookup(
    node: Node,
    name: str,
    lookup: object,
    *,
    on: object,
    output: object,
    concurrency: object,
    timeout: object,
    retries: object,
    cache: object,
    ordered: object,
    on_error: object,
) -> LookupNode:
    """A stage that asks somebody outside; refuses what makes no sense by itself."""
    columns = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DescriptionError(
            f"on={told(on)} names no column.", fix="Name what is asked for: on='user', or on=['shop', 'item']."
        )
    if not isinstance(output, str | Schema):
        raise DescriptionError(
            f"output={told(output)} does not say which columns an answer adds.",
            fix="Write them as a schema: output='tier string'.",
        )
    if cache is not None and not isinstance(cache, Cache):
        raise DescriptionError(f"cache={told(cache)} is no cache.", fix="Write cache=sl.Cache('10m', size=100_000).")
    span = Span.of(timeout)  # type: ignore[arg-type]
    if span <= 0:
        raise DescriptionError(f"timeout={span.text!r} is no time to answer in.", fix="Give such as timeout='2s'.")
    require_boolean("ordered", ordered)
    return LookupNode(
        name=name, parent=node, lookup=_asked(lookup), on=columns, output=Schema.of(output),
        concurrency=_count("concurrency", concurrency, 1), timeout=span, retries=_count("retries", retries, 0), cache=cache,
        ordered=bool(ordered), on_error=_one_of("on_error", on_error, get_args(OnError)),
    )  # fmt: skip


def _asked(lookup: object) -> Asked:
    if isinstance(lookup, type) and issubclass(lookup, Lookup | BatchLookup):
        raise DescriptionError(f"{told(lookup)} is asked nothing.", fix=f"Write {lookup.__name__}(...), with brackets.")
    if not isinstance(lookup, Lookup | BatchLookup) and (isinstance(lookup, type) or not callable(lookup)):
        raise DescriptionError(
            f"{told(lookup)} cannot be asked.",
            fix="Give a function of the key, async or not, or something derived from sl.Lookup or sl.BatchLookup.",
        )
    if isinstance(lookup, BatchLookup):
        batch_of(lookup)
    return lookup


def _count(option: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000:
        raise DescriptionError(
            f"{option}={told(value)} is not possible.", fix=f"Give a whole number from {least} to 10000."
        )
    return value


def describe_join(
    left: tuple[Node, tuple[str, ...]], name: str, right: tuple[Node, tuple[str, ...]], *,
    within: object, match: object, how: object, suffix: object, salt: object,
) -> JoinNode:  # fmt: skip
    """A join of two keyed streams; refuses what makes no sense by itself."""
    span = _within(within)
    matches: Match = _one_of("match", match, get_args(Match))
    hows: How = _one_of("how", how, get_args(How))
    if matches != "all" and hows not in ("inner", "left"):
        raise DescriptionError(
            f"match={matches!r} chooses for each row of the left side, and how={hows!r} speaks of "
            f"{'no row of the right side' if hows in LEFT_ONLY else 'all rows of the right side'}.",
            fix=f"Write how='inner' or 'left' with match={matches!r}, or match='all'.",
        )
    if not isinstance(suffix, str) or not suffix:
        raise DescriptionError(
            f"suffix={told(suffix)} is no text to tell columns of one name apart.", fix="Write suffix='_right'."
        )
    (parent, keys), (other, other_keys) = left, right
    if not keys or len(keys) != len(other_keys):
        raise DescriptionError(
            f"The join {name!r} has {len(keys)} key columns on the left and {len(other_keys)} on the right.",
            fix="Key both sides by columns that pair up: a.key_by('user').join('paid', b.key_by('user_id'), ...).",
        )
    return JoinNode(
        name=name, parent=parent, other=other, keys=keys, other_keys=other_keys, within=span, match=matches, how=hows,
        suffix=suffix, salt=salted(salt, hows),
    )  # fmt: skip


def _within(within: object) -> Interval | SameWindow:
    if isinstance(within, Interval) or (isinstance(within, SameWindow) and within.window is not None):
        return within
    if within is None:
        raise DescriptionError(
            "A join without within= would have to keep every row for ever: the other one may come at any time.",
            fix="Say how far apart two events may be: within=sl.Before('24h'), After, Around, Between('-1h', '5m'); or "
            "within=sl.SameWindow(sl.Tumbling('1h')).",
        )
    hint = "Name the windows: sl.SameWindow(sl.Tumbling('1h'))." if isinstance(within, SameWindow | Window) else ""
    raise DescriptionError(
        f"within={told(within)} does not bound a join.",
        fix=hint
        or "Write within=sl.Before('24h'), After, Around, Between('-1h', '5m') or SameWindow(sl.Tumbling('1h')).",
    )


def _one_of(option: str, value: object, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise DescriptionError(
            f"{option}={told(value)} is not known.", fix=f"Give one of {', '.join(map(repr, known))}."
        )
    return value


def keys_of(node: OperatorNode) -> tuple[tuple[str, ...], ...]:
    """The columns by which an operator keeps rows, for each port."""
    if isinstance(node, JoinNode | JoinTableNode):
        return node.keys, node.other_keys
    if isinstance(node, TableNode):
        return (node.key,)
    return (node.on,) if isinstance(node, DedupeNode | LookupNode) else (node.keys,)


def operator_schema(node: OperatorNode, *inputs: Schema) -> Schema:
    """The columns of an operator's rows, given those of its inputs."""
    if isinstance(node, JoinNode):
        left, right = inputs
        shown = [*left.columns] if node.how in LEFT_ONLY else [*left.columns, *right_columns(node, left, right)]
        windows = WINDOW_COLUMNS if isinstance(node.within, SameWindow) else ()
        return Schema((*shown, *windows))
    if isinstance(node, DetectNode):
        return match_schema(node, inputs[0])
    if isinstance(node, TableNode):
        return Schema((*((name, kind) for name, kind in inputs[0].columns if name != OP), (OP, Type.of("string"))))
    if isinstance(node, JoinTableNode):
        return Schema(
            (*inputs[0].columns, *((called, inputs[1][name]) for name, called in table_names(node, *inputs).items()))
        )
    if isinstance(node, OverNode):
        shown = [(name, result_type(aggregate, inputs[0])) for name, aggregate in node.features]
        op = [(OP, Type.of("string"))] if node.emit == "arrival" else []
        return Schema((*inputs[0].columns, *shown, *op))
    if isinstance(node, LookupNode):
        return Schema((*inputs[0].columns, *node.output.columns))
    return node.output if isinstance(node, ProcessNode) else inputs[0]


def right_columns(node: JoinNode, left: Schema, right: Schema) -> list[tuple[str, Type]]:
    """The columns that the right side adds, under the names they have in the pair."""
    return [(called, right[name]) for name, called in right_names(node, left, right).items()]


def right_names(node: JoinNode, left: Schema, right: Schema) -> dict[str, str]:
    """What the right side's columns are called in a pair; a key of the same name as the left one's is one column."""
    shared = {other for key, other in zip(node.keys, node.other_keys, strict=True) if key == other}
    return {name: name + node.suffix if name in left else name for name in right if name not in shared}


def match_schema(node: DetectNode, inputs: Schema) -> Schema:
    """The columns of a match: the key, its first and last moment, and its events, each with its step."""
    keys = tuple((key, inputs.require(key, f"The key of stage {node.name!r}")) for key in node.keys)
    stamp = Type.of("timestamp")
    events = array_of(struct_of((("step", Type.of("string")), *inputs.columns)))
    return Schema((*keys, ("match_start", stamp), ("match_end", stamp), ("events", events)))


def table_names(node: JoinTableNode, ours: Schema, theirs: Schema) -> dict[str, str]:
    """What the table's columns are called beside the stream's; its key, which the stream has, and `op` are not shown."""
    shown = (name for name in theirs if name not in node.other_keys and name != OP)
    return {name: name + node.suffix if name in ours else name for name in shown}


def aside_schema(node: OperatorNode, side: str, *inputs: Schema) -> Schema:
    """The columns of rows that an operator puts aside, late or rejected. Those of a join look like a row without a match.

    What a join with a table rejects are the table's changes.
    """
    if isinstance(node, JoinTableNode):
        return inputs[1 if side == "rejected" else 0]
    if isinstance(node, JoinNode):
        left, right = inputs
        return Schema((*left.columns, *right_columns(node, left, right), (SIDE, Type.of("string"))))
    return inputs[0]

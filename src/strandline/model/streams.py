"""Rows on their way, and what can be done to them: each verb makes the node that comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.expressions import parse, require_text
from strandline.model.lookups import Asked, Cache, OnError
from strandline.model.nodes import (
    Node,
    Origin,
    ProcessNode,
    RowsMode,
    SelectNode,
    SideNode,
    Sink,
    StageNode,
    Stateful,
    TransformNode,
    WhereNode,
    WithColumnNode,
)
from strandline.model.operators import describe_dedupe, describe_join_table, describe_lookup
from strandline.model.options import require_name
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.model.windows import Global

if TYPE_CHECKING:
    from strandline.model.flow import Flow
    from strandline.model.keyed import Keyed
    from strandline.model.tables import Table


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows on their way, and what can be done to them."""

    flow: Flow
    node: Node

    def where(self, condition: str) -> Stream:
        """Keep rows for which the condition (Spark SQL) is true."""
        return self._then(WhereNode(parent=self.node, condition=parse(require_text(".where()", condition))))

    def select(self, *columns: str) -> Stream:
        """Make rows of these columns: names, or expressions with `as`."""
        if not columns:
            raise DescriptionError(
                ".select() without columns leaves nothing.", fix="Name some: .select('user', 'amount')."
            )
        return self._then(
            SelectNode(parent=self.node, columns=tuple(parse(require_text(".select()", c)) for c in columns))
        )

    def with_column(self, name: str, expression: str) -> Stream:
        """Add or replace a column."""
        if not isinstance(name, str) or not name:
            raise DescriptionError(
                f".with_column() takes a name and an expression, not the name {told(name)}.",
                fix="Write .with_column('double', 'amount * 2').",
            )
        parsed = parse(require_text(".with_column()", expression))
        return self._then(WithColumnNode(parent=self.node, name=name, expression=parsed))

    def transform(
        self, function: Callable[[Any], Any], *, name: str | None = None, schema: str | Schema | None = None
    ) -> Stream:
        """Put the rows through any stateless PySpark code: DataFrame in, DataFrame out.

        `schema` says which columns come out, so that what follows can be checked before Spark is there.
        """
        if not callable(function):
            raise DescriptionError(
                f".transform() takes a function of a DataFrame, not {function!r}.", fix="Pass it without calling it."
            )
        called = str(name or getattr(function, "__name__", "transform"))
        columns = None if schema is None else Schema.of(schema)
        return self._then(TransformNode(parent=self.node, name=called, function=function, schema=columns))

    def key_by(self, *columns: str) -> Keyed:
        """Group by columns; without any, all rows are one group."""
        for column in columns:
            if not isinstance(column, str):
                raise DescriptionError(
                    f".key_by() takes the names of columns as text, not {told(column)}.",
                    fix="Write .key_by('user', 'country'); compute a key first with .with_column('key', '...').",
                )
        from strandline.model.keyed import Keyed  # what is grouped makes stages, which are streams

        return Keyed(self, columns)

    def window(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is missing: windows are kept by key."""
        raise DescriptionError(
            ".window() stands behind .key_by().",
            fix="Write .key_by('user').window(...); .key_by() without columns makes all rows one group.",
        )

    def aggregate(self, *_given: Any, **_aggregates: Any) -> NoReturn:
        """Nothing, but to say what is missing."""
        raise without_a_window()

    def join(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is missing: rows that meet have one key."""
        raise _behind_key_by("join", "'paid', other.key_by('user'), within=...")

    def over(self, *_given: Any, **_features: Any) -> NoReturn:
        """Nothing, but to say what is missing: an event looks back at those of its key."""
        raise _behind_key_by("over", "'features', n_1h=sl.Count(within='1h')")

    def process(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is missing: what a process remembers is of a key."""
        raise _behind_key_by("process", "'name', MyProcess, output='...'")

    def detect(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is missing: events that follow each other are of one key."""
        raise _behind_key_by("detect", "'name', sl.sequence(...)")

    def dedupe(
        self,
        name: str,
        *,
        on: str | Sequence[str] | None = None,
        within: str | timedelta | Span | None = None,
        salt: None = None,
    ) -> Stage:
        """Let the first of equal rows through: those that repeat it in the columns `on`, within this time, go no further.

        Exact for as long as `within` says, also after a restart. The name is the identity of the stage's state. There is
        no `salt`, and the error says why.
        """
        require_name("stage", name)
        node = describe_dedupe(self.node, name, on, within, salt=salt)
        self.flow.add(node)
        return Stage(self.flow, node)

    def join_table(
        self,
        name: str,
        table: Table,
        *,
        on: str | Sequence[str] | None = None,
        as_of: bool = False,
        how: Literal["left", "inner"] = "left",
        max_wait: str | timedelta | Span | None = None,
        suffix: str = "_table",
        salt: None = None,
    ) -> Stage:
        """Each row with the row of a table for its key: the one that stands now, or, with as_of, that stood at its time.

        With as_of a row waits until the watermark of both says that the answer cannot change, or for `max_wait` of
        processing time at most. There is no `salt`, and the error says what is instead.
        """
        from strandline.model.tables import Table  # its changes are a stream

        require_name("stage", name)
        if salt is not None:
            raise DescriptionError(
                f"salt={told(salt)} is not for a join with a table: of the stage {name!r} the table itself is copied.",
                fix="Write flow.table(..., broadcast=True): rows are then spread, whatever their key.",
            )
        if not isinstance(table, Table) or table.flow is not self.flow:
            raise DescriptionError(f"{told(table)} is no table of this flow.", fix="Make one with flow.table(...).")
        node = describe_join_table(
            self.node, name, table.node, on=on, as_of=as_of, how=how, max_wait=max_wait, suffix=suffix
        )
        self.flow.add(node)
        return Stage(self.flow, node)

    def lookup(
        self,
        name: str,
        lookup: Asked,
        *,
        on: str | Sequence[str] | None = None,
        output: str | Schema | None = None,
        concurrency: int = 100,
        timeout: str | timedelta | Span = Span(2_000_000),
        retries: int = 2,
        cache: Cache | None = None,
        ordered: bool = True,
        on_error: OnError = "reject",
        salt: None = None,
    ) -> Stage:
        """Each row with what somebody outside answers for its columns `on`: a service, a database, a model.

        `lookup` is a function, async or not, or what is derived from `sl.Lookup`. Equal keys are asked for once a tick, and
        `concurrency` calls are under way at a time in each task. A call that fails, or takes longer than `timeout`, is made
        again up to `retries` times; then `on_error` says whether the row is rejected, gets nulls, or the flow stops.
        Null is not asked for. Rows of a key keep their order, and go to one task; with ordered=False they go to all.
        There is no `salt`, and the error says what is instead.
        """
        require_name("stage", name)
        if salt is not None:
            raise DescriptionError(
                f"salt={told(salt)} is not for a lookup: the rows of a key go to one task, so that {name!r} asks for it once.",
                fix="Write ordered=False: rows then go to all tasks, whatever their key.",
            )
        node = describe_lookup(
            self.node, name, lookup, on=on, output=output, concurrency=concurrency, timeout=timeout, retries=retries,
            cache=cache, ordered=ordered, on_error=on_error,
        )  # fmt: skip
        self.flow.add(node)
        return Stage(self.flow, node)

    def sink(
        self,
        name: str,
        sink: Sink,
        *,
        rows: RowsMode | None = None,
        key: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        max_lag: int | None = None,
    ) -> None:
        """Let the rows leave the flow, to a sink such as `sl.Files("out").write(format="json")`.

        `rows`: "append" writes them as they are, "changelog" with `op`, "upsert" keeps one row per `key` (behind a
        stage by default its keys and the window). Rows that are never withdrawn are appended unless said otherwise.
        `columns` picks some; with `max_lag` the sink may fall so many ticks behind before the flow waits for it.
        """
        from strandline.model.sinks import describe_sink  # it reads lineages, which read flows

        require_name("sink", name)
        self.flow.add(describe_sink(self.node, name, sink, rows=rows, key=key, columns=columns, max_lag=max_lag))

    @property
    def rejected(self) -> Stream:
        """The rows that had no usable time or could not be decoded, with the reason."""
        if not isinstance(self.node, Origin):
            raise DescriptionError(
                "Only a source and a stage reject rows.",
                fix="Take .rejected right from flow.source(...) or .aggregate(...).",
            )
        return self._then(SideNode(parent=self.node, side="rejected"))

    @property
    def late(self) -> Stream:
        """Nothing, but to say where it is: only a stage has windows that an event can miss."""
        raise DescriptionError(
            "Only a stage has late rows: they missed its windows.", fix="Take .late right from .aggregate(...)."
        )

    def _then(self, node: Node) -> Stream:
        self.flow.add(node)
        return Stream(self.flow, node)


@dataclass(frozen=True, slots=True)
class Stage(Stream):
    """The panes of a stage, as a stream; and what it could not use."""

    @property
    def late(self) -> Stream:
        """The events that came after their windows were forgotten, or what would have matched them, and by how much."""
        assert isinstance(self.node, Stateful)
        return self._then(SideNode(parent=self.node, side="late"))

    def as_table(self, name: str | None = None) -> Table:
        """What stands for each key of a window stage, and window, as a table to join with."""
        if not isinstance(self.node, StageNode):
            raise DescriptionError(
                "Only a stage of windows is a table by itself.",
                fix="Say what tells rows apart: flow.table(name, stream, key=...).",
            )
        window = () if isinstance(self.node.window, Global) else ("window_start", "window_end")
        return self.flow.table(name or f"{self.node.name}-table", self, key=[*self.node.keys, *window])

    def side(self, name: str) -> Stream:
        """What a process gives out at one of its sides."""
        sides = dict(self.node.sides) if isinstance(self.node, ProcessNode) else {}
        if not isinstance(self.node, ProcessNode) or name not in sides:
            raise DescriptionError(
                f"There is no side {told(name)} here.",
                fix=did_you_mean(str(name), sides)
                if sides
                else "Describe it: .process(..., side={'alerts': 'user string'}).",
            )
        return self._then(SideNode(parent=self.node, side=name))


def _behind_key_by(verb: str, given: str) -> DescriptionError:
    """That a verb needs a key."""
    return DescriptionError(f".{verb}() stands behind .key_by().", fix=f"Write .key_by('user').{verb}({given}).")


def without_a_window() -> DescriptionError:
    """That an aggregate needs a window."""
    return DescriptionError(
        ".aggregate() stands behind .window().",
        fix="Write .key_by('user').window(sl.Tumbling('1m')).aggregate(...); sl.Global() is one window for all time.",
    )

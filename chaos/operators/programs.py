"""The flows as programs that faults are done to; an undisturbed run is judged by the oracle, which knows no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from chaos.judging import Rows, Sinks, Verdict, differing, rows_of_files
from chaos.operators import flows
from chaos.operators.events import TICKS, rows_of, write_events
from chaos.program import Program
from strandline.model.nodes import ProcessNode, SourceNode, lineage
from strandline.model.process import TableProcess
from strandline.sinks.reading import read_files
from strandline.testing import Events, Tick, play


def program_of(name: str) -> Program:
    """One of the flows, as a program."""
    _, streams = flows.make_flow(name, Path("nowhere/at-all"))
    names = tuple(streams)
    return Program(
        write_events=write_events,
        run=partial(flows.run, name),
        read=partial(_read, names),
        added_to=names,
        judge=partial(_judge, streams),
        module="chaos.operators.flows" if name == flows.ALL else "",
    )


def _read(names: Iterable[str], folder: Path) -> Sinks:
    return {name: rows_of_files(folder / name) for name in names}


def _judge(streams: Mapping[str, Any], folder: Path) -> Verdict:
    """How the sinks of a run differ from what the oracle says of the same ticks."""
    return sum((differing(_found(folder / name), _expected(each)) for name, each in streams.items()), Verdict())


def _found(folder: Path) -> Rows:
    return Counter(map(_told, read_files(folder).iter_rows(named=True)))


def _expected(stream: Any) -> Rows:
    sources = [node.name for node in lineage(stream.node) if isinstance(node, SourceNode)]
    ticks = [Tick([Events(rows_of(s, tick), policy=True, source=s) for s in sources]) for tick in range(TICKS)]
    # The oracle takes one event at a time; whoever works in columns is judged by the kernel alone.
    columns = any(isinstance(n, ProcessNode) and issubclass(n.process, TableProcess) for n in lineage(stream.node))
    played = play(stream, ticks, runner="kernel" if columns else "oracle")
    return Counter(_told(row) for shown in played for row in shown)


def _told(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, _plain(value)) for name, value in row.items()))


def _plain(value: Any) -> Any:
    """A value as text that does not depend on who says it."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, Mapping):
        return repr(_told(value))
    return repr([_plain(each) for each in value]) if isinstance(value, list) else repr(value)

"""`strandline status`, `tail` and `monitoring`: what a flow does, seen from outside, from its journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from strandline.cli.answers import AsJson, show_json
from strandline.cli.failing import UNHEALTHY, WrongUse
from strandline.cli.following import LOOK_EVERY, tick_line
from strandline.cli.running import State
from strandline.errors import StateError
from strandline.model.time import Instant, Span
from strandline.operations.health.finding import Finding, Severity
from strandline.operations.health.judging import judge
from strandline.operations.health.looking import look
from strandline.operations.health.watched import SECOND, seconds
from strandline.operations.monitoring import write_monitoring
from strandline.operations.said import plural, visible
from strandline.operations.status import status_of
from strandline.spark import clock
from strandline.store.journal import recorded_ticks, records
from strandline.store.storage import Storage, storage_at

MOST_SHOWN: Final = 20
"""Partitions of a source that are shown: those that hold it back first, then those furthest behind."""
USES: Final = ("name it under rule_files: in prometheus.yml", "import it in Grafana (Dashboards, New, Import)")
PIPED: Final = 160  # columns, where no terminal has a width
STYLES: Final[Mapping[Severity, str]] = {"critical": "bold red", "warning": "bold yellow", "notice": "bold"}


def status(
    state: State,
    health: Annotated[
        bool, Option("--health", help="Say what is wrong, why, and what to do; exit code 4 if anything is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say where a flow is: its last tick, each partition's watermark against the clock, backlog, state, sinks.

    docs/monitoring.md says what the fields of its JSON are.
    """
    watched = look(storage_at(state), clock.now())
    findings = judge(watched)
    told = status_of(watched, findings)
    if as_json:
        show_json(told)
    else:
        out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED)
        _show(told, out)
        if health:
            _show_findings(findings, out)
        elif not told["healthy"]:
            out.print(Text("Something is wrong: --health says what, why, and what to do.", style="bold yellow"))
    if health and not told["healthy"]:
        raise Exit(UNHEALTHY)


def tail(
    state: State,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as ticks come; Ctrl-C ends it.")] = False,
    last: Annotated[int, Option(min=0, help="How many of the last ticks.")] = 10,
    since: Annotated[int | None, Option(min=0, help="From this tick on, instead.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the journal: a line for each tick, as `run` prints them; of JSON its record."""
    storage = storage_at(state)
    ticks = recorded_ticks(storage)
    if not ticks and not follow:
        raise StateError(f"There is no journal in {storage.url}.", fix="Give the folder that the flow is run with.")
    if not ticks:
        sys.stderr.write(f"there is no tick in {storage.url} yet; the first is waited for\n")
    if since is None:
        since = 0 if last > len(ticks) or not ticks else [*ticks, ticks[-1] + 1][-1 - last]
    with suppress(KeyboardInterrupt):
        for record in _records(storage, since, follow=follow):
            if as_json:
                show_json(record, as_line=True)
            else:
                print(tick_line(record), flush=True)  # noqa: T201 - rich would wrap it


def monitoring(
    folder: Annotated[Path, Argument(help="Where to; made if it is not there.", show_default=False)],
) -> None:
    """Write what Prometheus and Grafana need: alert rules and a dashboard, for `run --metrics-port`."""
    try:
        written = write_monitoring(folder)
    except OSError as error:
        raise WrongUse(f"{folder} cannot be written to: {error.strerror}.", fix="Name another folder.") from error
    out = Console(highlight=False)
    for path, use in zip(written, USES, strict=True):
        out.print(Text(f"{path}: {use}"), soft_wrap=True)


def _records(storage: Storage, first: int, *, follow: bool) -> Iterator[dict[str, Any]]:
    """The records from a tick on, and then those that come, until the flow is finished."""
    while True:
        for record in records(storage, since=first):
            first = record["tick"] + 1
            yield record
            if record["finished"]:
                return
        if not follow:
            return
        time.sleep(LOOK_EVERY)


def _show(told: Mapping[str, Any], out: Console) -> None:
    """A status as people read it."""
    if told["tick"] is None:
        out.print(Text(f"No tick was made yet ({told['is']})."))
        return
    again = f", started again {plural(told['restarts'], 'time')}" if told["restarts"] else ""
    out.print(Text.assemble(
        (visible(told["flow"]), "bold"), f": {told['is']}, tick {told['tick']} of {_time(told['now'])}, {seconds(told['silence'])} ago{again}",
        " (catching up)" if told["catching_up"] else "",
    ), soft_wrap=True)  # fmt: skip
    out.print(_sources(told["sources"]))
    if told["stages"]:
        out.print(_stages(told["stages"]))
    if told["sinks"]:
        out.print(_sinks(told["sinks"]))
    took = [
        f"{step} {_short(span)}"
        for step in ("read", "step", "waited", "commit", "publish", "latency")
        if (span := told["took"].get(step))
    ]
    out.print(
        Text(f"the last tick took: {', '.join(took)}" if took else "the last tick took no time that is known"),
        soft_wrap=True,
    )


def _sources(sources: Mapping[str, Any]) -> Table:
    table = _table("partition", "watermark", ">behind", ">backlog", ">rows/s", "")
    for name, source in sources.items():
        found = sorted(source["partitions"].items(), key=lambda each: (not each[1]["holds"], -(each[1]["lag"] or 0)))
        for partition, each in found[:MOST_SHOWN]:
            holds = "holds it back" if each["holds"] and len(found) > 1 else ""
            why = Text(
                ": ".join(filter(None, (holds, each["why"]))), style="yellow" if each["why"] not in ("", "idle") else ""
            )
            table.add_row(*_cells(f"{name}/{partition}", _time(each["watermark"]), _lag(each["lag"]), f"{each['backlog']:,}", f"{each['rows_per_second']:,.0f}"), why)  # fmt: skip
        if len(found) > MOST_SHOWN:
            table.add_row(*_cells(f"{name}: {len(found) - MOST_SHOWN} more"))
    return table


def _stages(stages: Mapping[str, Any]) -> Table:
    table = _table("stage", "watermark", ">rows of state", ">bytes", ">dropped", ">rejected")
    for name, each in stages.items():
        counts = (f"{each[word]:,}" for word in ("rows", "bytes", "late", "rejected"))
        table.add_row(*_cells(name, _time(each["watermark"]), *counts))
    return table


def _sinks(sinks: Mapping[str, Any]) -> Table:
    table = _table("sink", ">rows", ">ticks behind", ">took")
    for name, each in sinks.items():
        table.add_row(*_cells(name, f"{each['rows']:,}", f"{each['pending']:,}", _short(each.get("took", 0))))
    return table


def _table(*columns: str) -> Table:
    """A table without lines; a name that begins with '>' is a column of numbers."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", no_wrap=bool(column)
        )
    return table


def _cells(*texts: str) -> list[Text]:
    return [Text(visible(text)) for text in texts]


def _show_findings(findings: list[Finding], out: Console) -> None:
    """Each finding in three lines; in a terminal they are wrapped between words, for scripts not at all."""
    if not findings:
        out.print(Text.assemble(("✓ ", "bold green"), "Nothing is wrong."))
    for finding in findings:
        what = f"{finding.what} [{finding.rule}, {finding.about}]"
        for label, style, text in (
            (f"{finding.severity}: ", STYLES[finding.severity], what),
            ("  cause: ", "bold", finding.cause),
            ("    fix: ", "bold", finding.fix),
        ):
            out.print(Text.assemble((label, style), visible(text)), soft_wrap=not out.is_terminal)


def _time(micros: int | None) -> str:
    return "-" if micros is None else Instant(micros // SECOND * SECOND).text


def _lag(micros: int | None) -> str:
    return "-" if micros is None else seconds(micros)


def _short(micros: int) -> str:
    return Span(micros // 1000 * 1000).text

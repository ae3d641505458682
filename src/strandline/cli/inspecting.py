"""`strandline inspect`: the state of a stage as a table, and where it is large."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from rich.console import Console
from rich.text import Text
from typer import Argument, Option

from strandline.cli.answers import AsJson, show_json, show_table
from strandline.cli.completing import flow_files, savepoint_names, stage_names
from strandline.cli.failing import WrongUse
from strandline.cli.finding import find_flow
from strandline.cli.running import State
from strandline.errors import DescriptionError, did_you_mean
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.stateful import plan_of
from strandline.model.batch import as_batch
from strandline.model.nodes import Stateful
from strandline.model.time import Instant
from strandline.operations.inspect import Table, Wanted, fits, manifest_of, rows_of, sizes_of, stages
from strandline.store.manifests import Manifest
from strandline.store.storage import storage_at

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def inspect(
    state: State,
    stage: Annotated[
        str | None,
        Argument(help="The stage's name.", show_default="all stages, in short", autocompletion=stage_names),
    ] = None,
    place: Annotated[
        str | None,
        Argument(
            metavar="[FILE[:FLOW]]", help="The flow's file: windows are put together, aggregates are as they would be shown.",
            show_default=False, autocompletion=flow_files,
        ),
    ] = None,
    key: Annotated[list[str] | None, Option(help="user=ann; user alone is null. Repeatable.", show_default=False)] = None,
    window: Annotated[
        str | None, Option(help="A moment in it, 2026-01-01T12:00:00Z; or a stretch: FROM..TO.", show_default=False)
    ] = None,
    by: Annotated[
        Literal["bucket", "key", "window"] | None, Option(help="How large: rows and bytes by this.", show_default=False)
    ] = None,
    limit: Annotated[int, Option(help="Rows to show.", min=1)] = 20,
    tick: Annotated[int | None, Option(help="An earlier tick that is still there.", show_default="the last")] = None,
    savepoint: Annotated[str | None, Option(help="What this savepoint keeps.", show_default=False, autocompletion=savepoint_names)] = None,
    raw: Annotated[bool, Option("--raw", help="All columns, also internal ones, under their own names.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the state of a stage as a table: by key, by window, or how large it is. Without a stage: which there are."""
    if tick is not None and savepoint is not None:
        raise WrongUse("A savepoint is of one tick.", fix="Leave out --tick, or --savepoint.")
    storage = storage_at(state)
    manifest = manifest_of(storage, tick, savepoint)
    wanted = Wanted(key=dict(map(_key, key or ())), window=_window(window), limit=limit, raw=raw)
    if stage is None:
        if place or key or window or by:
            raise WrongUse("Of which stage?", fix=f"Name one: {', '.join(manifest.stages) or 'the state has none'}.")
        found = stages(manifest)
    elif by is not None:
        found = sizes_of(storage, manifest, stage, by, wanted)
    else:
        found = rows_of(storage, manifest, stage, wanted, None if place is None else _plan(place, manifest, stage))
    _show(found, manifest, stage, as_json=as_json)


def _show(found: Table, manifest: Manifest, stage: str | None, *, as_json: bool) -> None:
    if as_json:
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        about = {"flow": manifest.flow, "tick": manifest.number, "time": manifest.tick.now.text, "stage": stage}
        show_json({**about, "rows": rows, "more": found.more, "notes": list(found.notes)})
        return
    if found.rows:
        show_table(out, found.columns, found.rows)
    for note in (*found.notes, *(["There are more: --limit."] if found.more else [])):
        err.print(Text(note, "dim"), soft_wrap=True)


def _plan(place: str, manifest: Manifest, stage: str) -> AnyPlan:
    """The stage of the flow in a file, as the run whose state this is had it: in batch it is another."""
    flow: Any = find_flow(place)
    plans = []
    for each in (flow, as_batch(flow)):
        nodes = {node.name: node for node in each.nodes if isinstance(node, Stateful)}
        if stage not in nodes:
            raise WrongUse(f"The flow {flow.name!r} has no stage {stage!r}.", fix=did_you_mean(stage, nodes))
        plans.append(_planned(each, nodes[stage]))
    record = manifest.stages.get(stage)
    return next((plan for plan in plans if record is not None and fits(plan, record)), plans[0])


def _planned(flow: Any, node: Stateful) -> AnyPlan:
    try:
        return plan_of(flow, node)
    except DescriptionError as error:  # what Spark alone knows
        raise WrongUse(error.what, fix="Leave the file out: rows are then shown as they are kept.") from error


def _key(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None


def _window(text: str | None) -> tuple[Instant, Instant] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    start = Instant.of(first)
    end = Instant.of(last) if dots else start
    if end < start:
        raise WrongUse(f"{text} ends before it begins.", fix="Write the earlier moment first.")
    return start, end

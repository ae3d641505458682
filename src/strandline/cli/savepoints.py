"""`strandline savepoint`: keep a tick under a name, list, drop, go back, fork."""

from __future__ import annotations

from typing import Annotated

from rich.console import Console
from rich.text import Text
from typer import Argument, Option, Typer

from strandline.cli.answers import AsJson, show_json, show_table
from strandline.cli.completing import savepoint_names
from strandline.cli.running import State
from strandline.errors import StateError
from strandline.store import savepoints
from strandline.store.manifests import Manifest, Manifests
from strandline.store.storage import storage_at

app = Typer(no_args_is_help=True, help="Keep a tick of a flow under a name; go back to it, or fork it.")
Name = Annotated[str, Argument(help="The savepoint's name.", show_default=False)]
Known = Annotated[str, Argument(help="The savepoint's name.", show_default=False, autocompletion=savepoint_names)]
out = Console(highlight=False)


@app.command()
def take(
    name: Name, state: State, tick: Annotated[int | None, Option(help="An earlier tick that is still there.")] = None
) -> None:
    """Keep the last committed tick, or an earlier one. The flow may go on meanwhile."""
    kept = savepoints.take(storage_at(state), name, tick).manifest
    out.print(Text(f"The savepoint {name!r} keeps tick {kept.number} of the flow {kept.flow!r}."))


@app.command(name="list")
def list_(state: State, as_json: AsJson = False) -> None:
    """List what is kept."""
    storage = storage_at(state)
    found = savepoints.savepoints(storage)
    if not found and Manifests(storage).head() is None:
        raise StateError(f"There is no state in {storage.url}.", fix="Give the folder that the flow was run with.")
    rows = [
        (each.name, each.manifest.flow, each.manifest.number, each.manifest.tick.now.text, _rows(each.manifest))
        for each in found
    ]
    columns = ("name", "flow", "tick", "time of the tick", "rows of state")
    if as_json:
        names = ("name", "flow", "tick", "time", "rows")
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        show_table(out, columns, rows)
    else:
        out.print("There are no savepoints.")


def _rows(manifest: Manifest) -> int:
    return sum(stage.rows for stage in manifest.stages.values())


@app.command()
def drop(name: Known, state: State) -> None:
    """Forget a savepoint; the files that only it needs are removed by the flow's next clean-up."""
    savepoints.drop(storage_at(state), name)
    out.print(Text(f"The savepoint {name!r} is dropped."))


@app.command()
def restore(name: Known, state: State) -> None:
    """Go back to a savepoint. Stop the flow first: a run that goes on meanwhile ends with an error."""
    first = savepoints.restore(storage_at(state), name)
    out.print(Text(f"The next run goes on from the savepoint {name!r}, as tick {first.number + 1}."))
    out.print(Text("Sinks hold rows of later ticks: give them a new place, or say run --acknowledge."))


@app.command()
def fork(
    name: Known,
    state: State,
    into: Annotated[str, Option(help="A folder without state.", show_default=False)],
    flow: Annotated[str | None, Option(help="The fork's flow, if it has another name.")] = None,
) -> None:
    """Copy a savepoint to a state of its own, which outlives the original."""
    first = savepoints.restore(storage_at(state), name, storage_at(into), flow=flow)
    out.print(Text(f"{into} holds the savepoint {name!r}, for the flow {first.flow!r}."))

"""`strandline advise`: propose bound, lateness and ttl from a sample of events, or from what a flow has seen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final, get_args

from rich.console import Console
from typer import Argument, Context, Option

from strandline.cli.advice import shown
from strandline.cli.answers import AsJson, show_json
from strandline.cli.failing import WrongUse
from strandline.errors import DescriptionError, StateError, did_you_mean
from strandline.model.time import Span
from strandline.operations.advise.advice import Advice, advise
from strandline.operations.advise.journal import advise_journal
from strandline.operations.advise.reading import MOST, Columns, Unit, format_of, read_sample
from strandline.sources.files import Format
from strandline.store.journal import records
from strandline.store.storage import Storage, storage_at

out = Console(highlight=False)
OF_A_FILE: Final = frozenset(
    f"--{name}"
    for name in ("time", "arrival", "partition", "key", "batch-interval", "buckets", "unit", "format", "separator", "rows", "png")
)  # fmt: skip


def advise_(
    context: Context,
    file: Annotated[
        str | None,
        Argument(
            metavar="FILE", help="Events: lines of JSON, CSV or parquet; or a folder of them.", show_default=False
        ),
    ] = None,
    state: Annotated[
        str | None,
        Option(
            help="Instead of a file: where a flow's state is; its journal says how late events came.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None, Option(help="With --state: which source, if there are several.", show_default=False)
    ] = None,
    time: Annotated[str | None, Option(help="The column of event time.", show_default=False)] = None,
    arrival: Annotated[
        str | None, Option(help="The column that says when an event arrived.", show_default="order in the file")
    ] = None,
    partition: Annotated[
        str | None, Option(help="The column whose values have their own order.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, Option(help="The column, or columns with commas, of the key.", show_default=False)
    ] = None,
    late_rate: Annotated[str, Option(help="How many events may be late: 1%, 0.1%, 0.01.")] = "1%",
    bound: Annotated[
        str | None, Option(help="Judge this bound, instead of one that is proposed.", show_default=False)
    ] = None,
    batch_interval: Annotated[
        str | None,
        Option(help="Judge all that arrives within it by one watermark.", show_default="each event by itself"),
    ] = None,
    buckets: Annotated[int, Option(help="How many buckets the flow has.")] = 64,
    unit: Annotated[str | None, Option(help="Of times that are whole numbers: s, ms or us.", show_default="us")] = None,
    format: Annotated[str | None, Option(help="json, csv or parquet.", show_default="by the name")] = None,
    separator: Annotated[str, Option(help="Of CSV.")] = ",",
    rows: Annotated[int, Option(help="How many events to look at, at most.")] = MOST,
    png: Annotated[str | None, Option(help="Draw the picture into this file too.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Propose a watermark's bound, a lateness and a ttl from how late events come.

    A bound is judged as a run judges it: an event is late if its time lies before the watermark that held before it came.
    As JSON, spans are in microseconds and shares from 0 to 1.
    """
    given = _given(context)
    rate, chosen = read_rate(late_rate), None if bound is None else Span.of(bound)
    if file is not None and state is not None:
        raise WrongUse("A file and a state are two things to look at.", fix="Name one of them.")
    if state is not None:
        _require_none(given & OF_A_FILE, "a file of events", fix="or give one in place of --state: FILE --time COLUMN.")
        storage = storage_at(state)
        _tell(_of_journal(storage, source, rate, chosen), storage.url, as_json=as_json)
        return
    if file is None:
        raise WrongUse(
            "There is nothing to look at.",
            fix="Name a file with events: strandline advise FILE --time COLUMN; or a flow's state: --state FOLDER.",
        )
    _require_none(given & {"--source"}, "the state of a flow", fix="or give that in place of the file: --state FOLDER.")
    if batch_interval is not None and arrival is None:
        raise WrongUse(
            "Without times of arrival nobody knows what comes in one batch.", fix="Say --arrival COLUMN too."
        )
    if buckets < 1 or rows < 1:
        raise WrongUse("--buckets and --rows count from 1.", fix="Give whole numbers from 1.")
    if key is None:
        _require_none(given & {"--buckets"}, "keys", fix="or name their columns: --key user,country.")
    kind = _word("--format", format, get_args(Format))
    if "--separator" in given and (kind or format_of(file)) != "csv":
        _require_none({"--separator"}, "CSV", fix="or say --format csv, if the file is that.")
    columns = Columns(
        time=time, arrival=arrival, partition=partition, key=tuple(each.strip() for each in key.split(",")) if key else (),
        unit=_word("--unit", unit, get_args(Unit)),
    )  # fmt: skip
    ticks = None if batch_interval is None else Span.of(batch_interval)
    sample = read_sample(file, columns, format=kind, separator=separator, most=rows)
    found = advise(sample, rate=rate, bound=chosen, buckets=buckets, batch_interval=ticks)
    if png is not None:
        from strandline.operations.advise.picture import draw

        draw(sample, found, png, batch_interval=ticks)
    _tell(found, file, as_json=as_json)


def _given(context: Context) -> set[str]:
    """The options that stand on the command line, at their default or not."""
    found = set()
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name == "COMMANDLINE":
            found.add(each.opts[0])
    return found


def _require_none(amiss: Collection[str], of: str, *, fix: str) -> None:
    """WrongUse, if options are given that say something of what is not looked at."""
    if amiss:
        are, them = ("is", "it") if len(amiss) == 1 else ("are", "them")
        raise WrongUse(
            f"{', '.join(sorted(amiss))} {are} about {of}, and there is none.", fix=f"Leave {them} out; {fix}"
        )


def _of_journal(storage: Storage, source: str | None, rate: float, bound: Span | None) -> Advice:
    told = list(records(storage))
    if not told:
        raise StateError(f"There is no journal in {storage.url}.", fix="Give the state that a flow was run with.")
    return advise_journal(told, rate=rate, source=source, bound=bound)


def read_rate(text: str) -> float:
    """A share, from how people write one.

    >>> read_rate("1%"), read_rate("0.001")
    (0.01, 0.001)
    """
    try:
        rate = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1:
        raise DescriptionError(f"--late-rate {text!r} is no share of events.", fix="Write it as 1%, 0.1% or 0.01.")
    return rate


def _word(option: str, value: str | None, known: tuple[str, ...]) -> Any:
    if value is not None and value not in known:
        raise WrongUse(f"{option} {value!r} is not known.", fix=did_you_mean(value, known))
    return value


def _tell(found: Advice, source: str, *, as_json: bool) -> None:
    if as_json:
        show_json(found.to_json())
        return
    for part in shown(found, source, out.width):
        out.print(part)

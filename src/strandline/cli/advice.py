"""Advice as a person reads it: what to write, how far behind events come, and what each choice would cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from strandline.model.time import Instant, Span
from strandline.operations.advise.advice import Advice, Choice, OfPartition
from strandline.operations.advise.choosing import written
from strandline.operations.advise.keys import Keys, Silences
from strandline.operations.said import plural, visible

WIDEST: Final = 100
NARROW: Final = 70
"""Columns: below this tables stand below one another, and have only the columns that matter most."""
PARTITIONS: Final = 8
"""So many partitions are shown; those with most late events first."""

BESIDE: Final = 26
"""So many columns there are at least beside what is to be copied, or what is said of it stands below."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def shown(advice: Advice, source: str, width: int) -> Iterator[RenderableType]:
    """The advice, part by part, for a terminal of this width."""
    wide = min(width, WIDEST)
    yield _about(advice, source)
    yield _head(_of_proposal(advice), wide)
    yield _inset(_proposal(advice, wide - 2))
    yield _head("How far behind the greatest time before them events come", wide)
    yield _inset(_picture(advice, wide - 4))
    yield _head("What each bound makes late, and what each lateness then drops at most", wide)
    yield _inset(_choices(advice, wide - 2))
    yield _head(_of_lags(advice), wide)
    yield _inset(_partitions(advice, wide))
    if advice.keys is not None:
        yield _head(f"Keys, by {', '.join(advice.keys.columns)}", wide)
        yield _inset(_keys(advice.keys))
        if advice.keys.silences is not None:
            yield Text()
            yield _inset(_silences(advice.keys.silences))
    if advice.notes:
        yield _head("To know", wide)
    for note in advice.notes:
        yield _inset(Text(f"• {note}"))


def percent(share: float) -> str:
    """A share as people read it: three digits that count, and none that do not.

    >>> [percent(share) for share in (0.0123456, 0.5, 0.000976, 0.0000001, 0)]
    ['1.23%', '50%', '0.0976%', '<0.001%', '0%']
    """
    if 0 < share < 0.00001:
        return "<0.001%"
    return f"{share * 100:.3g}%"


def about(span: Span) -> str:
    """A span to about three digits.

    >>> [about(Span.of(text)) for text in ("12s345ms678us", "1h2m3s", "950us", "3d4h5m", "59s990ms")]
    ['12.3s', '1h2m', '950us', '3d4h', '1m']
    """
    for step, text in (("1d", "1h"), ("1h", "1m"), ("1m", "1s")):
        if span >= Span.of(step):
            return _to(span, Span.of(text)).text
    if span >= 1_000_000:
        seconds = float(f"{span / 1_000_000:.3g}")
        return "1m" if seconds >= 60 else f"{seconds:g}s"
    return _to(span, Span(1_000)).text if span >= 10_000 else span.text


def _to(span: Span, unit: Span) -> Span:
    return Span(round(span / unit) * unit)


def _about(advice: Advice, source: str) -> Text:
    rejected = f" (and {plural(advice.rejected, 'row')} without a time that can be read)" if advice.rejected else ""
    first, last = (Instant(at // 1_000_000 * 1_000_000).text for at in (advice.first, advice.last))
    return Text.assemble(
        (visible(source), "bold"), f": {plural(advice.events, 'event')}{rejected}, from {first} to {last}"
    )


def _head(text: str, width: int) -> Text:
    words = f"{text} "
    return Text.assemble("\n", (words, "bold"), ("─" * max(0, width - len(words)), "bright_black"))


def _inset(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2))


def _of_proposal(advice: Advice) -> str:
    if advice.given:
        return f"With the bound {written(advice.bound)}, which was given"
    return f"To write, for at most {percent(advice.rate)} late events"


def _proposal(advice: Advice, width: int) -> Table:
    """What to write, and beside it what that does; below it, where there is no room: nothing that is copied may be cut."""
    lines = list(_lines_of_proposal(advice))
    beside = max(len(code) for code, _ in lines) + BESIDE <= width
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=beside, overflow="fold")
    for code, does in lines:
        written_so = Text(code, "bold green")
        if beside:
            grid.add_row(written_so, Text(does))
        else:
            grid.add_row(written_so)
            grid.add_row(Padding(Text(does), (0, 0, 0, 2)))
    return grid


def _lines_of_proposal(advice: Advice) -> Iterator[tuple[str, str]]:
    late, dropped = (plural(choice.events, "event") for choice in (advice.late, advice.dropped))
    are = "is" if advice.late.events == 1 else "are"
    least, most = (percent(share) for share in advice.between)
    tenths = f"tenth by tenth {percent(min(advice.stretches))} to {percent(max(advice.stretches))}"
    yield (
        f'watermark=sl.Bounded("{written(advice.bound)}")',
        f"{late} of the sample {are} late: {percent(advice.late.share)}, give or take chance {least} to {most}; {tenths}",
    )
    kept = f"at most {dropped} dropped" if advice.dropped.events else "no event of the sample is dropped"
    yield f'lateness="{written(advice.lateness)}"', f"{kept}, whatever the windows"
    if advice.keys is not None and advice.keys.silences is not None:
        after = f"of all returns of a key at most {percent(advice.rate)} come after a longer silence"
        yield f'ttl="{written(advice.keys.silences.ttl)}"', after


def _picture(advice: Advice, width: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    longest = max(bar.share for bar in advice.picture)
    room = max(10, width - 40)
    for place, bar in enumerate(advice.picture):
        late = place > 0 and advice.picture[place - 1].most >= advice.bound
        said = "none" if place == 0 else f"to {written(bar.most)}"
        style = "magenta" if late else "green"
        grid.add_row(said, Text.assemble((_bar(bar.share / longest * room), style), f" {percent(bar.share)}"))
        if bar.most == advice.bound:
            rest = f"{percent(advice.late.share)} come later"
            rest += f" than the bound of {written(advice.bound)}" if width >= NARROW else ""
            grid.add_row(Text("─" * 6, "bright_black"), Text(f"── {rest} ──", "magenta"))
    return grid


def _bar(cells: float) -> str:
    """A bar of so many cells, to an eighth; what is not nothing is seen.

    >>> _bar(2.5), _bar(0.001), _bar(0)
    ('██▌', '▏', '')
    """
    eighths = max(round(cells * 8), 1 if cells > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _choices(advice: Advice, width: int) -> RenderableType:
    """Two tables: bounds, and the lateness with the bound that was chosen; side by side where there is room."""
    tables = (
        _table("bound", "late", advice.bounds, advice.bound),
        _table("lateness", "dropped", advice.latenesses, advice.lateness),
    )
    if width < NARROW:
        return Group(tables[0], Text(), tables[1])
    pair = Table.grid(padding=(0, 6))
    pair.add_row(*tables)
    return pair


def _table(what: str, which: str, choices: tuple[Choice, ...], chosen: Span) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("", what, which, "of all"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in choices:
        style, mark = ("bold green", "▶") if each.span == chosen else ("", "")
        table.add_row(mark, written(each.span), f"{each.events:,}", percent(each.share), style=style)
    return table


def _of_lags(advice: Advice) -> str:
    if advice.measured != "order":
        return "Lag of each partition: arrival minus event time"
    return "Lag of each partition: behind the greatest time it brought before"


def _partitions(advice: Advice, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    table.add_column("partition", overflow="ellipsis", no_wrap=True, max_width=24)
    quantiles = slice(2, None) if width < NARROW else slice(None)
    for name in ("events", *("p50", "p95", "p99", "greatest")[quantiles], f"late at {written(advice.bound)}"):
        table.add_column(name, justify="right", no_wrap=True)
    worst = sorted(advice.partitions, key=_how_late)
    for each in sorted(worst[:PARTITIONS], key=lambda one: one.name):
        table.add_row(
            Text(visible(each.name)),
            f"{each.events:,}",
            *(about(lag) for lag in each.lags[quantiles]),
            percent(each.late),
        )
    if rest := worst[PARTITIONS:]:
        table.add_row(Text(f"and {len(rest):,} with less", "bright_black"), f"{sum(each.events for each in rest):,}")
    return table


def _how_late(partition: OfPartition) -> tuple[float, int]:
    return -partition.late, -partition.lags[-1]


def _keys(keys: Keys) -> Text:
    top = ", ".join(f"{visible(name)} {percent(share)}" for name, share in keys.top)
    buckets = keys.buckets
    return Text("\n").join([
        Text(f"{plural(keys.count, 'key')}; {percent(keys.new)} of them {'is' if keys.count == 1 else 'are'} new in the second half of the sample"),
        Text(f"most events: {top}"),
        Text(
            f"the busiest of {buckets.count} buckets has {percent(buckets.busiest)} of the events "
            f"(evenly: {percent(1 / buckets.count)}); {buckets.empty} have none"
        ),
    ])  # fmt: skip


def _silences(silences: Silences) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for name in ("", "gap or ttl", "returns after it", "sessions"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in silences.gaps:
        style, mark = ("bold green", "▶") if each.span == silences.ttl else ("", "")
        table.add_row(mark, written(each.span), percent(each.share), f"{each.sessions:,}", style=style)
    return table

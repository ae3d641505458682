"""Draw how far behind events come, as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from strandline.errors import RunError
from strandline.model.time import Span
from strandline.operations.advise.advice import Advice
from strandline.operations.advise.behind import behind
from strandline.operations.advise.choosing import written
from strandline.operations.advise.sample import Sample
from strandline.operations.said import visible

POINTS: Final = 20_000
"""So many events are drawn, evenly taken, and beside them all that are late."""

MARKS: Final = ("1ms", "10ms", "100ms", "1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d")
_NAMED: Final = 8
_SECOND: Final = 1_000_000
_LONGEST: Final = 24  # signs of a name
_BESIDE: Final[dict[str, Any]] = {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False, "fontsize": 9}
_ON_TIME, _LATE, _LINE = "#2a9d8f", "#c2185b", "#555555"


def draw(sample: Sample, advice: Advice, path: str, *, batch_interval: Span | None = None) -> None:
    """Write the picture into a file."""
    figure = picture(sample, advice, batch_interval=batch_interval)
    try:
        figure.savefig(path, dpi=120, format=Path(path).suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise RunError(
            f"The picture {path} cannot be written: {error}.", fix="Name another file, such as skew.png."
        ) from error


def picture(sample: Sample, advice: Advice, *, batch_interval: Span | None = None) -> Any:
    """Above: the events as they came, and the bound. Below: what each bound would make late, for each partition too.

    Nothing that is drawn is covered, or cut by a frame: legends stand beside it, and beyond the greatest is some room.
    """
    figure_of = _matplotlib()
    each = np.maximum(behind(sample, batch_interval=batch_interval), 0) / _SECOND
    figure = figure_of(figsize=(11, 8), layout="constrained")
    above, below = figure.subplots(2, 1)
    _events(above, sample, each, advice)
    _rates(below, sample, each, advice)
    figure.suptitle(
        f'{advice.events:,} events; Bounded("{written(advice.bound)}") makes {advice.late.share:.3%} of them late',
        fontsize=13,
    )
    return figure


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure  # not pyplot: it would look for a screen, and keep what it draws
    except ImportError as error:
        raise RunError(
            "matplotlib is not installed; it draws the picture.", fix="pip install 'strandline[plots]'"
        ) from error
    return Figure


def _events(axes: Any, sample: Sample, each: np.ndarray[Any, Any], advice: Advice) -> None:
    bound = advice.bound / _SECOND
    places = np.arange(len(each)) if sample.arrivals is None else (sample.arrivals - sample.arrivals[0]) / _SECOND
    late = each > bound
    for mine, colour, said in ((~late, _ON_TIME, "in time"), (late, _LATE, "late")):
        found = np.flatnonzero(mine)
        some = found[:: max(1, len(found) // POINTS)]
        axes.plot(places[some], each[some], ".", markersize=2, color=colour, alpha=0.5, label=f"{said}: {len(found):,}")
    axes.axhline(bound, color=_LINE, linestyle="--", linewidth=1, label=f"the bound, {written(advice.bound)}")
    axes.set_yscale("symlog", linthresh=max(bound / 100, 0.001))
    axes.set_ylim(0, _beyond(each, bound))
    _in_spans(axes.yaxis, bound / 100, float(each.max()))
    axes.set_xlabel("event, in order of arrival" if sample.arrivals is None else "seconds since the first arrival")
    axes.set_ylabel("behind the front")
    axes.legend(**_BESIDE, markerscale=6)


def _rates(axes: Any, sample: Sample, each: np.ndarray[Any, Any], advice: Advice) -> None:
    _rate(axes, each, color="black", linewidth=2, label="all")
    if len(sample.names) > 1:
        for name, mine in list(zip(sample.names, sample.of_each_partition(), strict=True))[:_NAMED]:
            _rate(axes, each[mine], linewidth=1, label=f"partition {_labelled(name)}")
    axes.axhline(advice.rate, color=_LINE, linestyle=":", linewidth=1, label=f"asked for: {advice.rate * 100:g}%")
    axes.axvline(
        advice.bound / _SECOND, color=_LINE, linestyle="--", linewidth=1, label=f"the bound, {written(advice.bound)}"
    )
    axes.set_xscale("symlog", linthresh=max(advice.bound / _SECOND / 100, 0.001))
    axes.set_yscale("log")
    axes.set_xlim(0, _beyond(each, advice.bound / _SECOND))
    _in_spans(axes.xaxis, advice.bound / _SECOND / 100, float(each.max()))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share * 100:g}%")
    axes.set_xlabel("bound")
    axes.set_ylabel("share of events that it makes late")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(**_BESIDE)


def _labelled(name: str) -> str:
    """A name on one line and not too long; for matplotlib a dollar begins a formula."""
    shown = visible(name)
    return (shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…").replace("$", r"\$")


def _beyond(each: np.ndarray[Any, Any], bound: float) -> float:
    """Where the axis of spans ends: behind the greatest of them, and the bound."""
    return float(1.3 * max(each.max(), bound, 0.001))


def _in_spans(axis: Any, least: float, greatest: float) -> None:
    """Marks that people would write: 100ms, 1s, 10s, 1m."""
    marks = [text for text in MARKS if least < Span.of(text) / _SECOND <= greatest]
    axis.set_ticks([0.0, *(Span.of(text) / _SECOND for text in marks)], labels=["0", *marks])
    axis.minorticks_off()


def _rate(axes: Any, each: np.ndarray[Any, Any], **style: Any) -> None:
    """The share of events that are further behind than each span; where it would be none, the line ends."""
    spans, counts = np.unique(each, return_counts=True)
    shares = 1 - np.cumsum(counts) / len(each)
    some = np.unique(
        np.concatenate(
            [np.arange(0, len(spans), max(1, len(spans) // POINTS)), np.arange(max(0, len(spans) - 1000), len(spans))]
        )
    )
    some = some[shares[some] > 0]
    axes.plot(spans[some], shares[some], drawstyle="steps-post", **style)

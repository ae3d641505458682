"""Plots of measurements, as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

Line = Sequence[float]


def panels(
    path: Path,
    along: str,
    at: Line,
    lines: Mapping[str, Mapping[str, Line | tuple[Line, Line]]],
    *,
    shaded: tuple[float, float] | None = None,
) -> None:
    """One panel below the other, each with its lines from zero up. A line may bring its own places: (at, values)."""
    figure, axes = plt.subplots(len(lines), 1, figsize=(9, 2.4 * len(lines)), sharex=True, squeeze=False)
    for axis, (title, named) in zip(axes[:, 0], lines.items(), strict=True):
        for name, line in named.items():
            x, y = line if isinstance(line, tuple) else (at, line)
            axis.plot(x, y, label=name, linewidth=1)
        if shaded is not None:
            axis.axvspan(*shaded, color="0.9")
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        if len(named) > 1:
            axis.legend(fontsize=8, loc="center right")
    axes[-1, 0].set_xlabel(along)
    keep(figure, path)


def keep(figure: plt.Figure, path: Path) -> None:
    """Write a figure, and let go of it."""
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)

"""What Prometheus and Grafana need to watch flows: alert rules and a dashboard, shipped as files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

FILES: Final = ("alerts.yaml", "dashboard.json")


def shipped(name: str) -> str:
    """The text of a file that is shipped.

    >>> shipped("alerts.yaml").startswith("groups:")
    True
    """
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def write_monitoring(folder: Path) -> list[Path]:
    """Write the files into a folder, over what has their names there."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / name for name in FILES]
    for path in written:
        path.write_text(shipped(path.name), encoding="utf-8")
    return written

"""`python -m strandline.demo`: the flow that is killed; with `--panes`, the same meaning step by step without Spark."""

from __future__ import annotations

import sys

from rich.console import Console

from strandline.cli.failing import INTERRUPTED
from strandline.demo import crash, panes


def main() -> None:
    """Show one of the two; the exit code says whether what is claimed holds."""
    console = Console(highlight=False)
    try:
        if "--panes" in sys.argv[1:]:
            panes.show(console, pause=panes.PAUSE if console.is_terminal else 0)
            return
        sys.exit(0 if crash.show(console) else 1)
    except KeyboardInterrupt:
        console.print("\ninterrupted; nothing is left of it")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

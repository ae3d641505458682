"""A real browser, without a window: what a page says, and what goes wrong in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.servers import REQUIRED

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
QUIET: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--no-first-run", "--virtual-time-budget=2000", "--enable-logging=stderr", "--log-level=0", "--dump-dom",
)  # fmt: skip


def browser() -> str:
    """The browser's program. Where there is none the test is skipped; with STRANDLINE_REQUIRE_SERVERS=1 it fails."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        why = "there is no Chromium (apt-get install chromium)"
        pytest.fail(why) if os.environ.get(REQUIRED) == "1" else pytest.skip(why)
    return found


def opened(page: Path, folder: Path) -> tuple[str, list[str]]:
    """What a page is once it is loaded, and what the browser's console said of it; `folder` is the browser's own."""
    ran = subprocess.run(
        [browser(), *QUIET, f"--user-data-dir={folder}", page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )  # fmt: skip
    said = re.findall(r"CONSOLE[^\"]*\"(.*)\", source", ran.stderr)
    return ran.stdout, said

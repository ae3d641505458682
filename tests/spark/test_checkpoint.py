"""The folder of Spark's checkpoint: made anew for each run, and removed when nobody needs it."""

from __future__ import annotations

import os
from pathlib import Path

from strandline.spark.checkpoint import make_checkpoint


def test_the_folder_of_a_run_that_is_over_goes_unless_a_savepoint_needs_it(tmp_path: Path) -> None:
    for name in ("pinned", "over"):
        (tmp_path / name / "offsets").mkdir(parents=True)
        os.utime(tmp_path / name / "offsets", (1_700_000_000, 1_700_000_000))
    fresh = make_checkpoint(tmp_path, None, needed={"pinned"})
    assert {folder.name for folder in tmp_path.iterdir()} == {"pinned", fresh.query}

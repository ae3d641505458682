from __future__ import annotations

from pathlib import Path

import pytest

from strandline.model.time import Span
from strandline.spark import clock


def test_the_clock_steps_by_what_the_file_says_and_durations_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, running = clock.now(), clock.elapsed()
    (tmp_path / "step").write_text(str(int(-Span.of("1h"))))
    monkeypatch.setenv("STRANDLINE_CLOCK", str(tmp_path / "step"))
    assert clock.now() < before - Span.of("59m")
    assert clock.elapsed() >= running

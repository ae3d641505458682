"""What is known of the last runs, also of those that said nothing of their end."""

from __future__ import annotations

from pathlib import Path

from strandline.errors import SinkError
from strandline.model.time import Instant
from strandline.store.runs import KEPT, LONGEST, note_begin, note_end, run_notes
from strandline.store.storage import storage_at


def test_a_run_that_died_has_no_end_and_one_that_failed_says_with_what(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    note_begin(storage, "died", Instant(1))
    note_end(storage, note_begin(storage, "failed", Instant(2)), Instant(3), SinkError("No table.", fix="Make one."))
    note_end(storage, note_begin(storage, "ended", Instant(4)), Instant(5), None)
    found = [(each.run, each.ended, each.failure) for each in run_notes(storage)]
    assert found == [("died", None, ""), ("failed", Instant(3), "No table."), ("ended", Instant(5), "")]


def test_the_last_runs_are_kept_in_order_of_their_begin(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    for began in range(KEPT + 5):
        note_begin(storage, f"run {began % 7}", Instant(began * 1_000_000))
    assert [int(each.began) // 1_000_000 for each in run_notes(storage)] == list(range(5, KEPT + 5))
    assert [each.run for each in run_notes(storage, count=1)] == [f"run {(KEPT + 4) % 7}"]


def test_a_long_failure_is_cut_and_a_damaged_note_passed_over(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    note = note_begin(storage, "long", Instant(1))
    note_end(storage, note, Instant(2), ValueError("x\n" * 1_000))
    other = note_begin(storage, "damaged", Instant(3))
    storage.replace(other.file, b"{")
    [found] = run_notes(storage)
    assert (found.run, len(found.failure), "\n" in found.failure) == ("long", LONGEST, False)

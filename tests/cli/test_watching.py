"""What `strandline status`, `tail` and `monitoring` print, for people and for scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strandline.cli.main import main
from strandline.cli.watching import MOST_SHOWN
from strandline.model.time import Instant
from strandline.operations.metrics import METRICS
from strandline.store.journal import JOURNAL
from strandline.store.runs import note_begin, note_end
from strandline.store.storage import storage_at
from tests.operations.journals import SECOND, Partition, World, journal


def kept(folder: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    storage = storage_at(folder)
    for record in records:
        storage.create(f"{JOURNAL}{record['tick']:012}.json", json.dumps(record).encode(), durable=False)
    return folder


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let it be so many microseconds since 1970."""

    def stands(at: int) -> None:
        monkeypatch.setattr("strandline.spark.clock.now", lambda: Instant(at))

    return stands


@pytest.fixture
def strandline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["strandline", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code if isinstance(left.value.code, int) else 0, said.out, said.err

    return typed


def stalled(world: World) -> None:
    world.partitions["2"].rate = 0


def test_a_healthy_flow_has_exit_code_0_and_its_partitions_are_shown(
    tmp_path: Path, clock: Any, strandline: Any
) -> None:
    records = journal(90)
    clock(records[-1]["now"] + SECOND)
    code, out, _ = strandline("status", "--state", str(kept(tmp_path, records)), "--health")
    assert code == 0
    assert out.startswith(f"shop: running, tick {records[-1]['tick']} of 2026-01-01T12:01:")
    assert "✓ Nothing is wrong." in out
    [row] = [line for line in out.splitlines() if line.startswith("orders/1 ")]
    assert row.split()[2] == "20s"


def test_what_is_wrong_has_exit_code_4_and_its_cause_and_fix(tmp_path: Path, clock: Any, strandline: Any) -> None:
    records = journal(180, stalled, at=120)
    clock(records[-1]["now"] + SECOND)
    state = str(kept(tmp_path, records))
    code, out, _ = strandline("status", "--state", state, "--health")
    assert code == 4
    assert "holds it back: no data" in out
    assert "[stuck_watermark, partition orders/2]" in out
    assert "  cause: " in out
    assert "    fix: " in out
    plain = strandline("status", "--state", state)
    assert (plain[0], "--health says what" in plain[1]) == (0, True)


def test_a_script_is_told_the_same_as_json(tmp_path: Path, clock: Any, strandline: Any) -> None:
    records = journal(180, stalled, at=120)
    clock(records[-1]["now"] + SECOND)
    code, out, _ = strandline("status", "--state", str(kept(tmp_path, records)), "--health", "--json")
    told = json.loads(out)
    assert (code, told["healthy"], [each["rule"] for each in told["findings"]]) == (4, False, ["stuck_watermark"])
    held = told["sources"]["orders"]["partitions"]["2"]
    assert (held["holds"], held["why"], held["rows_per_second"]) == (True, "no data", 0)
    assert held["lag"] == records[-1]["now"] - held["watermark"]


def test_a_flow_of_many_partitions_shows_those_that_matter(tmp_path: Path, clock: Any, strandline: Any) -> None:
    world = World(Random(1), {str(name): Partition(rate=10) for name in range(30)})
    records = journal(60, lambda world: setattr(world.partitions["17"], "rate", 0), at=20, world=world)
    clock(records[-1]["now"])
    _, out, _ = strandline("status", "--state", str(kept(tmp_path, records)))
    rows = [line for line in out.splitlines() if line.startswith("orders")]
    assert rows[0].startswith("orders/17 ")
    assert (len(rows), rows[-1].strip()) == (MOST_SHOWN + 1, "orders: 10 more")


def test_a_flow_that_failed_before_its_first_tick_is_told_with_its_failure(
    tmp_path: Path, clock: Any, strandline: Any
) -> None:
    storage = storage_at(tmp_path)
    note_end(storage, note_begin(storage, "r", Instant(0)), Instant(SECOND), OSError("the shop is closed"))
    clock(5 * SECOND)
    code, out, _ = strandline("status", "--state", str(tmp_path), "--health")
    assert (code, "No tick was made yet (failed)." in out, "cause: OSError: the shop is closed" in out) == (
        4,
        True,
        True,
    )


@pytest.mark.parametrize("command", ["status", "tail"])
def test_a_folder_without_state_is_told(tmp_path: Path, strandline: Any, command: str) -> None:
    code, _, err = strandline(command, "--state", str(tmp_path / "none"))
    assert (code, "error: There is no" in err, "fix: " in err) == (1, True, True)


def test_the_last_ticks_are_told_and_those_since_one_and_all_as_json(tmp_path: Path, strandline: Any) -> None:
    records = journal(30)
    state, last = str(kept(tmp_path, records)), records[-1]["tick"]

    def ticks(*options: str) -> list[int]:
        return [
            json.loads(line)["tick"]
            for line in strandline("tail", "--state", state, "--json", *options)[1].splitlines()
        ]

    assert ticks() == list(range(last - 9, last + 1))
    assert ticks("--last", "2") == [last - 1, last]
    assert ticks("--last", "0") == []
    assert ticks("--last", "500") == list(range(last + 1))
    assert ticks("--since", str(last - 2)) == [last - 2, last - 1, last]
    lines = strandline("tail", "--state", state, "--last", "1")[1]
    assert f"tick {last}: " in lines
    assert "orders at 2026-01-01T12:00:" in lines


def test_a_journal_is_followed_until_the_flow_is_finished(tmp_path: Path) -> None:
    records = journal(5)
    records[-1]["finished"] = True
    state = kept(tmp_path, records[:2])
    command = [sys.executable, "-m", "strandline", "tail", "--state", str(state), "--json", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        first = [json.loads(following.stdout.readline())["tick"] for _ in range(2)]
        kept(tmp_path, records[2:])
        then = [json.loads(line)["tick"] for line in following.stdout]
    assert (first, then, following.returncode) == ([0, 1], [each["tick"] for each in records[2:]], 0)


def test_rules_and_dashboard_are_written_for_prometheus_and_grafana(tmp_path: Path, strandline: Any) -> None:
    code, out, _ = strandline("monitoring", str(tmp_path / "watch"))
    assert (code, "rule_files" in out, "Grafana" in out) == (0, True, True)
    assert METRICS[0].name in (tmp_path / "watch" / "alerts.yaml").read_text(encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = strandline("monitoring", str(tmp_path / "file"))
    assert (code, "cannot be written to" in err) == (2, True)


@pytest.mark.parametrize("command", ["status", "tail"])
def test_names_stand_in_json_as_they_are_written(command: str, tmp_path: Path, clock: Any, strandline: Any) -> None:
    records = journal(5)
    clock(records[-1]["now"])
    state = str(kept(tmp_path, [{**each, "flow": "kaffee-zürich"} for each in records]))
    assert '"kaffee-zürich"' in strandline(command, "--state", state, "--json")[1]


def test_what_came_too_late_for_every_window_is_called_dropped(tmp_path: Path, clock: Any, strandline: Any) -> None:
    records = journal(5)
    records[-1]["books"]["totals"]["late"] = 7
    clock(records[-1]["now"])
    state = str(kept(tmp_path, records))
    shown = strandline("status", "--state", state)[1].splitlines()
    (titles,) = (line.split() for line in shown if line.startswith("stage "))
    (mine,) = (line.split() for line in shown if line.startswith("totals "))
    assert (titles[-2], mine[-2]) == ("dropped", "7")
    assert "(7 dropped" in strandline("tail", "--state", state, "--last", "1")[1]


def test_a_name_with_the_end_of_a_line_stays_on_its_own(tmp_path: Path, clock: Any, strandline: Any) -> None:
    world = World(Random(1), {"a\nb\x1b[2J": Partition(rate=10), "c": Partition(rate=10)})
    records = journal(5, world=world)
    for each in records:
        each["sinks"] = {"ta\nble": {"rows": 1, "pending": 1}}
    clock(records[-1]["now"])
    state = str(kept(tmp_path, records))
    assert [line.split()[0] for line in strandline("status", "--state", state)[1].splitlines()].count("ta\\nble") == 1
    assert "orders/a\\nb\\x1b[2J " in strandline("status", "--state", state)[1]
    assert "1 to ta\\nble (1 tick behind)" in strandline("tail", "--state", state, "--last", "1")[1]

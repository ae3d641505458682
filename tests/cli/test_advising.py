"""`strandline advise`, as a user types it: on files of each format, in a terminal's width, as JSON, as a picture."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from strandline.cli.main import main
from strandline.operations.advise.advice import advise
from strandline.operations.advise.picture import picture
from strandline.operations.advise.sample import Sample

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    def typed(*arguments: object) -> tuple[int, str, str]:
        with monkeypatch.context() as here:
            here.setattr(sys, "argv", ["strandline", "advise", *map(str, arguments)])
            with pytest.raises(SystemExit) as left:
                main()
        said = capsys.readouterr()
        return left.value.code if isinstance(left.value.code, int) else 0, said.out, said.err

    return typed


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    chance, count = np.random.default_rng(5), 20_000
    arrived = np.arange(count) * 1_000 + 1_767_225_600_000_000
    at = arrived - (chance.lognormal(0, 1, count) * 1_000_000).astype(np.int64)
    moments = {name: pl.Series(each).cast(pl.Datetime("us", "UTC")) for name, each in (("at", at), ("came", arrived))}
    return pl.DataFrame({**moments, "shelf": chance.integers(0, 3, count), "user": chance.zipf(1.5, count) % 500})


@pytest.fixture
def written(events: pl.DataFrame, tmp_path: Path) -> Callable[[str], Path]:
    def write(format: str) -> Path:
        path = tmp_path / f"events.{format}"
        {"csv": events.write_csv, "json": events.write_ndjson, "parquet": events.write_parquet}[format](path)
        return path

    return write


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_files_of_each_format_say_the_same_as_their_columns(
    format: str, written: Callable[[str], Path], events: pl.DataFrame, told: Said
) -> None:
    options = ("--time", "at", "--arrival", "came", "--partition", "shelf", "--key", "user", "--json")
    code, out, _ = told(written(format), *options)
    times, came = (events[name].cast(pl.Int64).to_numpy() for name in ("at", "came"))
    keys = events.select(pl.col("user").cast(pl.String if format == "csv" else pl.Int64))
    sample = Sample.of(times, arrivals=came, partitions=events["shelf"], keys=keys)
    assert (code, json.loads(out)) == (0, json.loads(json.dumps(advise(sample, rate=0.01).to_json())))


def test_lines_that_cannot_be_read_are_counted_and_do_not_stop_it(tmp_path: Path, told: Said) -> None:
    lines = [json.dumps({"at": f"2026-01-01T12:00:{second:02}Z"}) for second in range(60)]
    path = tmp_path / "events.json"
    path.write_text("\n".join(['{"at": ', *lines, '{"at": "soon"}', '{"user": "ann"}']), encoding="utf-8")
    found = json.loads(told(path, "--time", "at", "--json")[1])
    assert (found["events"], found["rejected"], found["bound"]) == (60, 3, 0)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal_and_says_what_to_write(
    width: int, written: Callable[[str], Path], told: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.cli.advising.out.width", width)
    code, out, _ = told(written("parquet"), "--time", "at", "--key", "user")
    assert code == 0
    assert 'watermark=sl.Bounded("' in out
    assert 'lateness="' in out
    assert 'ttl="' in out
    assert "Nothing says when the events arrived" in out
    assert max(map(len, out.splitlines())) <= width


def test_a_bound_that_was_chosen_is_judged(written: Callable[[str], Path], told: Said) -> None:
    path = written("parquet")
    chosen = json.loads(told(path, "--time", "at", "--json")[1])
    other = json.loads(told(path, "--time", "at", "--json", "--bound", "500ms")[1])
    assert chosen["late"]["share"] <= 0.01 < other["late"]["share"]
    assert other["bound"] == other["late"]["span"] == 500_000


def test_all_that_comes_in_one_batch_is_judged_by_one_watermark(written: Callable[[str], Path], told: Said) -> None:
    def late(*more: str) -> Any:
        asked = ("--time", "at", "--arrival", "came", "--bound", "1s", "--json", *more)
        return json.loads(told(written("parquet"), *asked)[1])["late"]["events"]

    assert late() > late("--batch-interval", "2s") > 0


def test_a_csv_may_have_another_separator(events: pl.DataFrame, tmp_path: Path, told: Said) -> None:
    events.write_csv(tmp_path / "events.csv", separator=";")
    code, out, _ = told(tmp_path, "--time", "at", "--separator", ";", "--rows", "500", "--json")
    assert (code, json.loads(out)["events"]) == (0, 500)


def test_a_column_with_parts_is_refused(tmp_path: Path, told: Said) -> None:
    pl.DataFrame({"at": [1], "tags": [["a"]]}).write_parquet(tmp_path / "events.parquet")
    code, _, err = told(tmp_path / "events.parquet", "--time", "at", "--key", "tags")
    assert (code, "has parts" in err) == (2, True)


def test_whole_numbers_need_their_unit(tmp_path: Path, told: Said) -> None:
    path = tmp_path / "events.json"
    path.write_text("\n".join(f'{{"at": {1_767_225_600 + n}}}' for n in range(50)), encoding="utf-8")
    code, _, err = told(path, "--time", "at")
    assert (code, "--unit s" in err) == (1, True)
    assert json.loads(told(path, "--time", "at", "--unit", "s", "--json")[1])["first"] == 1_767_225_600_000_000


def test_in_a_narrow_terminal_nothing_is_cut_that_is_copied(
    written: Callable[[str], Path], told: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.cli.advising.out.width", 50)
    _, out, _ = told(written("parquet"), "--time", "at", "--key", "user")
    lines = [line.strip() for line in out.splitlines()]
    for code in (r'watermark=sl\.Bounded\("[\w.]+"\)', r'lateness="[\w.]+"', r'ttl="[\w.]+"'):
        assert [line for line in lines if re.fullmatch(code, line)], code
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 50


def test_what_a_given_bound_does_is_not_called_what_to_write(written: Callable[[str], Path], told: Said) -> None:
    _, out, _ = told(written("parquet"), "--time", "at", "--bound", "0s")
    assert "To write, for at most 1% late events" not in out
    assert "With the bound 0s, which was given" in out
    assert "This bound makes more than 1% of the events late;" in out


def test_of_one_event_it_is_not_said_that_chance_makes_none_late(tmp_path: Path, told: Said) -> None:
    path = tmp_path / "events.json"
    path.write_text('{"at": "2026-01-01T12:00:00Z"}\n', encoding="utf-8")
    _, out, _ = told(path, "--time", "at")
    said = " ".join(out.split())
    assert ": 1 event, from" in said
    assert "give or take chance 0% to 79.3%" in said
    assert "takes more than 1 event: 1,000 to say something" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("at,user\n2026-01-01T12:00:00Z,ann\n", "Say --format csv"),
        ('{"at": null}\n', "No row of 1 has a time in 'at'"),
    ],
)
def test_a_file_without_events_is_said_to_be_that(text: str, said: str, tmp_path: Path, told: Said) -> None:
    path = tmp_path / "events.json"
    path.write_text(text, encoding="utf-8")
    code, _, err = told(path, "--time", "at")
    assert (code, err.count("error:"), err.count("fix:")) == (1, 1, 1)
    assert said in err


def test_an_empty_file_before_others_is_passed_over(tmp_path: Path, told: Said) -> None:
    (tmp_path / "a.json").write_text("", encoding="utf-8")
    (tmp_path / "b.json").write_text('{"at": "2026-01-01T12:00:00Z"}\n', encoding="utf-8")
    assert json.loads(told(tmp_path, "--time", "at", "--json")[1])["events"] == 1


@pytest.mark.parametrize(
    ("unit", "at", "came", "said"),
    [
        ("s", 1_767_225_600, 1_767_225_600_000, "As seconds, times of 'came' lie beyond the year 9999"),
        ("ms", 1_767_225_600_000, 1_767_225_600, "looks like another unit"),
        ("us", 1_767_225_600_000_000, 1_767_225_600_000, "looks like another unit"),
    ],
)
def test_a_column_that_counts_in_another_unit_is_found(
    unit: str, at: int, came: int, said: str, tmp_path: Path, told: Said
) -> None:
    path = tmp_path / "events.json"
    path.write_text("\n".join(json.dumps({"at": at + n, "came": came + n}) for n in range(50)), encoding="utf-8")
    code, _, err = told(path, "--time", "at", "--arrival", "came", "--unit", unit)
    assert (code, said in err, "--unit" in err) == (1, True, True)


def test_an_event_beyond_the_calendar_is_rejected_as_a_flow_would(tmp_path: Path, told: Said) -> None:
    path = tmp_path / "events.json"
    path.write_text("\n".join(f'{{"at": {at}}}' for at in (1_767_225_600, 1_767_225_601, 10**15)), encoding="utf-8")
    found = json.loads(told(path, "--time", "at", "--unit", "s", "--json")[1])
    assert (found["events"], found["rejected"]) == (2, 1)


def test_the_picture_covers_and_cuts_nothing(events: pl.DataFrame) -> None:
    shelves = pl.Series([f"${shelf}\n" for shelf in events["shelf"]])
    sample = Sample.of(events["at"].cast(pl.Int64).to_numpy(), partitions=shelves)
    figure = picture(sample, advise(sample, rate=0.01))
    figure.draw_without_rendering()
    for axes, ends in zip(figure.axes, ("ylim", "xlim"), strict=True):
        spans = [line.get_data()[ends == "ylim"] for line in axes.lines]
        assert getattr(axes, f"get_{ends}")()[1] > 1.1 * max(np.max(each) for each in spans[:2])
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())


def test_the_picture_is_drawn(written: Callable[[str], Path], told: Said, tmp_path: Path) -> None:
    code, *_ = told(written("parquet"), "--time", "at", "--partition", "shelf", "--png", tmp_path / "skew.png")
    assert code == 0
    assert (tmp_path / "skew.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ((), "strandline advise FILE"),
        (("nothing.json", "--time", "at"), "Name a file"),
        (("events.csv",), "it has at, came, shelf, user"),
        (("events.csv", "--time", "att"), "Did you mean 'at'?"),
        (("events.csv", "--time", "at", "--late-rate", "many"), "1%, 0.1% or 0.01"),
        (("events.csv", "--time", "at", "--batch-interval", "1s"), "--arrival"),
        (("events.csv", "--time", "at", "--unit", "d"), "'ms'"),
        (("events.csv", "--time", "at", "--bound", "soon"), "10s"),
        (("events.csv", "--time", "at", "--source", "orders"), "--state FOLDER"),
        (("events.csv", "--time", "at", "--buckets", "8"), "--key user,country"),
        (("events.csv", "--time", "at", "--format", "json", "--separator", ";"), "--format csv"),
        (("--state", "nowhere", "--time", "at", "--key", "user"), "Leave them out; or give one in place of --state"),
        (("--state", "nowhere", "--png", "skew.png"), "Leave it out; or give one in place of --state"),
    ],
)
def test_what_is_wrong_is_said_with_exit_code_2(
    arguments: tuple[str, ...], fix: str, written: Callable[[str], Path], told: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written("csv").parent)
    code, _, err = told(*arguments)
    assert (code, err.count("error:"), err.count("fix:")) == (2, 1, 1)
    assert fix in err

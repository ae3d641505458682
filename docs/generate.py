"""Write the generated pages of docs/: `make docs`.

What a page says is tried, not copied: for every type and aggregate a flow is built, checked and played by both runners.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import strandline as sl
from docs import pictures
from docs.commands import commands_page
from docs.mistakes import mistakes_of_runs_page, mistakes_page
from docs.reference import pages
from docs.watching import monitoring_page
from strandline.errors import CheckFailed
from strandline.kernel.folds import compile_fold
from strandline.model.aggregates import BUILT_IN, AnyAggregate, takes_back
from strandline.model.result_types import result_type
from strandline.model.types import SCALARS, Schema, Type
from strandline.testing import Crash, Events, Watermark, play

HERE: Final = Path(__file__).parent

# Two values of each type, the second the greater; a null is added to them.
SAMPLES: Final[dict[str, tuple[Any, Any]]] = {
    "boolean": (False, True),
    "tinyint": (-128, 127),
    "smallint": (-32_768, 32_767),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**61), 2**61),
    "float": (-1.5, 2.25),
    "double": (-1e300, 0.1),
    "decimal(5,2)": ("-1.25", "999.99"),
    "decimal(18,0)": (-7, 10**18 - 1),
    "decimal(28,10)": ("-0.0000000001", "123456789012345678.5"),
    "decimal(38,18)": ("-0.000000000000000001", "123456789012345.5"),
    "string": ("", "zoë"),
    "binary": (b"", b"\x00\xff"),
    "date": ("1969-12-31", "2026-01-01"),
    "timestamp": ("1969-12-31T23:59:59.999999Z", "2026-01-01T12:00:00Z"),
    "timestamp_ntz": ("1969-12-31T23:59:59", "2026-01-01T12:00:00"),
    "interval day to second": ("-1s", "26h"),
    "array<int>": ([1], [2, 3]),
    "struct<a:int>": ({"a": 1}, {"a": 2}),
}
assert {Type.of(text).name for text in SAMPLES} >= set(SCALARS), "a scalar type has no samples"


class Longest(sl.Aggregate):
    """An aggregate of a user's own, which takes any type: the length of the longest text."""

    columns = ("x",)
    result = "bigint"

    def start(self) -> int:
        return 0

    def add(self, accumulator: int, x: Any) -> int:
        return max(accumulator, len(str(x)))

    def merge(self, left: int, right: int) -> int:
        return max(left, right)

    def output(self, accumulator: int) -> int:
        return accumulator


class Evens(Longest):
    """One that can take back: how many lengths are even."""

    def add(self, accumulator: int, x: Any) -> int:
        return accumulator + (len(str(x)) % 2 == 0)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def remove(self, accumulator: int, x: Any) -> int:
        return accumulator - (len(str(x)) % 2 == 0)


AGGREGATES: Final[dict[str, AnyAggregate]] = {
    "Count": sl.Count("x"),
    "Sum": sl.Sum("x"),
    "Sum exact": sl.Sum("x", exact=True),
    "Mean": sl.Mean("x"),
    "Min": sl.Min("x"),
    "Max": sl.Max("x"),
    "First": sl.First("x"),
    "Last": sl.Last("x"),
    "Variance": sl.Variance("x"),
    "StdDev": sl.StdDev("x"),
    "Distinct": sl.Distinct("x"),
    "ApproxDistinct": sl.ApproxDistinct("x"),
    "Quantile": sl.Quantile("x", 0.5),
    "TopK": sl.TopK("x", 2),
    "TopK by": sl.TopK("other", 2, by="x"),
    "Collect": sl.Collect("x"),
    "Ewma": sl.Ewma("x", half_life="10s"),
    "own": Longest(),
    "own, remove": Evens(),
}
assert {type(each) for each in AGGREGATES.values()} >= {*BUILT_IN} - {sl.Merge}, "an aggregate is not in the table"


def source_of(type_: str) -> sl.Stream:
    """Events with one column of the type."""
    rows = sl.Rows(schema=f"k string, x {type_}, other bigint, at timestamp")
    return sl.Flow("table").source("events", rows, time="at")


def keyed_stage(type_: str) -> sl.Stage:
    """A stage keyed by the column."""
    return source_of(type_).key_by("x").window(sl.Tumbling("1m")).aggregate("stage", n=sl.Count())


def stage_of(type_: str, *names: str) -> sl.Stage:
    """A stage with aggregates of the column."""
    return _aggregated(source_of(type_).key_by("k").window(sl.Tumbling("1m")), names)


def stage_behind(type_: str, *names: str) -> sl.Stage:
    """The same behind a stage that retracts."""
    late = sl.AfterWatermark(late=sl.AfterCount(1))
    corrected = (
        source_of(type_).key_by("k", "other").window(sl.Tumbling("1m"), trigger=late, lateness="1h", mode="retracting")
    )
    return _aggregated(corrected.aggregate("earlier", x=sl.Last("x")).key_by("k").window(sl.SameWindow()), names)


def rolled_up(name: str) -> sl.Stage:
    """One aggregate of a first stage, merged by a second."""
    first = stage_of("bigint", name)
    return first.key_by("k").window(sl.Tumbling("1m")).aggregate("merged", merged=sl.Merge(_column(name)))


def _aggregated(windowed: Any, names: Iterable[str]) -> sl.Stage:
    return windowed.aggregate("stage", **{_column(name): AGGREGATES[name] for name in names})


def _column(name: str) -> str:
    return "a_" + name.replace(" ", "_").replace(",", "")


def refused(stage: sl.Stage) -> str | None:
    """What check() says against the flow of a stage; None when it says nothing."""
    try:
        stage.flow.check()
    except CheckFailed as failed:
        return failed.problems[0].what
    return None


def require_agreement(stage: sl.Stage, type_: str) -> None:
    """Play the stage with both runners: they show the same, and something; else this page would lie."""
    values = [*SAMPLES[type_], None, SAMPLES[type_][0]]
    events = [
        {"k": "k", "x": value, "other": number % 3, "at": f"2026-01-01T12:00:{10 + number}Z"}
        for number, value in enumerate(values)
    ]
    late = {"k": "k", "x": SAMPLES[type_][1], "other": 0, "at": "2026-01-01T12:00:59Z"}
    steps = [Events(events[:2]), Events(events[2:]), Watermark("2026-01-01T12:01:00Z"), Crash(), Events([late])]
    oracle, kernel = (play(stage, steps, runner=runner) for runner in ("oracle", "kernel"))
    if repr(oracle) != repr(kernel) or not any(oracle):
        raise AssertionError(f"{type_}: the oracle shows {oracle}, the kernel {kernel}")


def matrix(make: Callable[..., sl.Stage], types: Iterable[str], notes: list[str]) -> dict[str, list[str]]:
    """The cells of the table type x aggregate. What check() lets through is played, all of a type at once."""
    table = {}
    for type_ in types:
        says = {name: refused(make(type_, name)) for name in AGGREGATES}
        if works := [name for name, problem in says.items() if problem is None]:
            require_agreement(make(type_, *works), type_)
        table[type_] = [_cell(problem, type_, name, notes) for name, problem in says.items()]
    return table


def key_cell(type_: str, notes: list[str]) -> str:
    """Whether a column of the type can be a key."""
    problem = refused(keyed_stage(type_))
    if problem is None:
        require_agreement(keyed_stage(type_), type_)
    return _cell(problem, type_, "key", notes)


def _cell(problem: str | None, type_: str, name: str, notes: list[str]) -> str:
    """A tick, or the number of the note that says why not. Notes that differ in names only are one."""
    if problem is None:
        return "✓"
    kind = type(AGGREGATES[name]).__name__ if name in AGGREGATES else name
    note = (
        problem.removeprefix("In stage 'stage': ")
        .replace(type_, "*type*")
        .replace(f"{_column(name)}=", "")
        .replace(f"{kind}('x')", kind)
    )
    note = note.replace(kind, "*aggregate*", 1) if name in AGGREGATES else note
    if note not in notes:
        notes.append(note)
    return f"[{notes.index(note) + 1}]"


def _header(columns: Iterable[str]) -> list[str]:
    names = list(columns)
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]


def shows(aggregate: AnyAggregate) -> str:
    """The type of the result, for each kind of input that it takes; T stands for the input's type."""
    every = {text: _result(aggregate, text) for text in ("int", "decimal(10,2)", "double", "string")}
    found = {text: result for text, result in every.items() if result is not None}
    patterns = {re.sub(rf"\b{re.escape(text)}(?=\W|$)", "T", result) for text, result in found.items()}
    for alike in (set(found.values()), patterns):
        if len(alike) == 1:
            return f"`{alike.pop()}`"
    return ", ".join(f"`{text}` → `{result}`" for text, result in found.items())


def _result(aggregate: AnyAggregate, text: str) -> str | None:
    try:
        return result_type(aggregate, Schema.of(f"x {text}, other bigint")).text
    except sl.StrandlineError:
        return None  # said in the table above


def keeps(aggregate: AnyAggregate, *, taking_back: bool) -> str:
    """The columns of the accumulator over a column of doubles: what a state row holds."""
    schema = Schema.of("x double, other bigint")
    fold = compile_fold(aggregate, schema, taking_back=taking_back, mask=None)
    return ", ".join(f"{name}: `{type_}`" for name, type_ in fold.fields)


def each_aggregate() -> list[str]:
    """One line for each aggregate."""
    lines = []
    for name, aggregate in AGGREGATES.items():
        back = takes_back(aggregate)
        behind = "" if back == "never" else keeps(aggregate, taking_back=True)
        same = behind == keeps(aggregate, taking_back=False)
        problem = refused(rolled_up(name))
        cells = (
            name,
            shows(aggregate),
            back,
            keeps(aggregate, taking_back=False),
            "the same" if same else behind or "refused",
        )
        if problem is None:
            require_agreement(rolled_up(name), "bigint")
        lines.append(f"| {' | '.join(cells)} | {'✓' if problem is None else problem} |")
    return lines


def aggregates_page() -> str:
    """docs/aggregates.md."""
    notes: list[str] = []
    first = matrix(stage_of, SAMPLES, notes)
    behind = matrix(stage_behind, [text for text in SAMPLES if Type.of(text).is_scalar], notes)
    return "\n".join([
        "# Aggregates and types",
        "",
        "<!-- Generated by `make docs`; a test compares. Change docs/generate.py, not this page. -->",
        "",
        "Every ✓ was played by the oracle and by the kernel, with nulls and a crash, and both showed the same. A number in",
        "brackets is what `check()` says instead; see the notes.",
        "",
        "## As a key, and in each aggregate",
        "",
        "`TopK by` ranks a bigint by the column (`TopK(\"other\", 2, by=\"x\")`); `own` is a user's `Aggregate`,",
        "which is not called for rows in which one of its columns is null.",
        "",
        *_header(["type", "key", *AGGREGATES]),
        *(f"| `{type_}` | {key_cell(type_, notes)} | {' | '.join(cells)} |" for type_, cells in first.items()),
        "",
        "## Behind a stage that retracts",
        "",
        *_header(["type", *AGGREGATES]),
        *(f"| `{type_}` | {' | '.join(cells)} |" for type_, cells in behind.items()),
        "",
        "## Notes",
        "",
        *(f"{number}. {note}" for number, note in enumerate(notes, 1)),
        "",
        "## Each aggregate",
        "",
        "*takes back*: how a row's part is undone behind a stage that retracts. *keeps*: the columns of its accumulator in",
        "the state, for a column of doubles. *shows*: T is the column's type. *Merge*: whether a later stage can roll it up by that accumulator.",
        "",
        *_header(["aggregate", "shows", "takes back", "keeps", "keeps, taking back", "Merge"]),
        *each_aggregate(),
        "",
    ])  # fmt: skip


PAGES: Final[dict[str, Callable[[], str]]] = {
    "aggregates.md": aggregates_page,
    "commands.md": commands_page,
    "mistakes.md": mistakes_page,
    "monitoring.md": monitoring_page,
    **pages(),
}
PAGES_OF_RUNS: Final[dict[str, Callable[[], str]]] = {"mistakes-of-runs.md": mistakes_of_runs_page}
"""These need Spark."""


def main() -> None:
    for name, make in {**PAGES, **PAGES_OF_RUNS}.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(make(), encoding="utf-8")
        print(f"wrote docs/{name}")
    for name in pictures.write():
        print(f"wrote docs/pictures/{name}")


if __name__ == "__main__":
    main()

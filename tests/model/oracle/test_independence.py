"""The oracle reads the fields of descriptions and calls none of their methods, so it cannot share their mistakes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[3] / "src" / "strandline" / "model"
ORACLE = sorted((MODEL / "oracle").glob("*.py"))
# Where descriptions live; nothing but their classes, aliases and constants may be taken from there.
DESCRIBING = (
    "windows",
    "triggers",
    "aggregates",
    "types",
    "time",
    "panes",
    "flow",
    "nodes",
    "intervals",
    "patterns",
    "process",
    "lookups",
)
# What users write themselves is theirs to answer.
USERS_OWN = frozenset({"assign", "start", "add", "merge", "output", "remove", "ask"})
# Modules of the model that the oracle may use: they interpret no window, no trigger and no aggregate but a user's own.
TOOLS = frozenset({"changelog", "evaluate", "expressions", "hashing", "processing", "ticks", "users", "values"})


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def interpreting(module: str) -> Iterator[str]:
    """The functions, methods and properties of a module."""
    for node in ast.walk(parsed(MODEL / f"{module}.py")):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            yield node.name


FUNCTIONS = {name for module in DESCRIBING for name in interpreting(module)}
# Flow's verbs have the names of the fields they fill (window, late, where, ...), which the oracle must read; and so have
# the promises that nodes make of sources and sinks.
METHODS = {n for module in DESCRIBING if module not in ("flow", "nodes") for n in interpreting(module)} - USERS_OWN


def faults(tree: ast.Module) -> list[str]:
    """What in a module asks a description to interpret itself."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strandline.model."):
            found += imported_faults(str(node.module).split(".")[2], [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("strandline")]
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            found.append(f".{node.attr}")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "vars", "super")
        ):
            found.append(node.func.id)
    return found


def imported_faults(module: str, names: list[str]) -> list[str]:
    if module == "oracle" or module in TOOLS:
        return []
    if module not in DESCRIBING:
        return [module]
    return [name for name in names if name in FUNCTIONS or name.startswith("_")]


@pytest.mark.parametrize("path", ORACLE, ids=lambda path: path.name)
def test_the_oracle_asks_no_description_to_interpret_itself(path: Path) -> None:
    assert faults(parsed(path)) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from strandline.model.triggers import AfterCount, walk", "walk"),
        ("from strandline.model.aggregates import takes_back", "takes_back"),
        ("from strandline.model.lineage import lateness_of", "lineage"),
        ("import strandline.model.windows", "strandline.model.windows"),
        ("window.size.text", ".text"),
        ("Span.of('1m')", ".of"),
        ("instant.moment", ".moment"),
        ("schema['v'].is_float", ".is_float"),
        ("getattr(window, name)()", "getattr"),
    ],
)
def test_the_test_of_independence_sees_each_way_to_cheat(source: str, fault: str) -> None:
    assert faults(ast.parse(source)) == [fault]


@pytest.mark.parametrize(
    "source", ["window.assign(time, row)", "from strandline.model.windows import Tumbling", "w.size"]
)
def test_fields_and_what_users_wrote_are_free(source: str) -> None:
    assert faults(ast.parse(source)) == []

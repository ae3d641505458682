"""Imports go inwards only, and the inner rings touch neither a clock nor a file.

    errors < model < kernel < store < clients < (sources, sinks) < lookups < spark < operations < (cli, console)

`testing` may import anything inside; nothing imports it. `strandline/__init__.py` is the outer door, and `surface` what is
seen through it; `running` and `connectors` stand behind it, `demo` and `__main__` outside it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
RINGS = (
    ("errors",),
    ("model",),
    ("kernel",),
    ("store",),
    ("clients",),
    ("sources", "sinks"),
    ("lookups",),
    ("spark",),
    ("operations",),
    ("cli", "console"),
)
DEPTH = {part: depth for depth, parts in enumerate(RINGS) for part in parts}
BEHIND_THE_DOOR = frozenset({"surface", "running", "connectors"})  # what users see that needs several rings
# What stands around the rings: it may import anything, and no ring imports it.
OUTSIDE = frozenset({"testing", "demo", "__main__"}) | BEHIND_THE_DOOR
# From outside the standard library; a part that is not named here may import anything but pyspark.
ALLOWED = {
    "errors": frozenset[str](),
    "model": frozenset({"numpy", "sqlglot"}),
    "kernel": frozenset({"numpy", "sqlglot", "polars", "pyarrow"}),
}
PURE = frozenset({"errors", "model", "kernel"})
IMPURE_MODULES = frozenset(
    {"asyncio", "io", "os", "pathlib", "pickle", "random", "secrets", "shutil", "socket", "subprocess", "tempfile"}
    | {"threading", "time", "uuid"}
)
IMPURE_CALLS = frozenset({"open", "input", "print", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"})

Import = tuple[str, frozenset[str]]  # a module, and the names taken from it


def part_of(module: str) -> str:
    """The folder (or file) directly under strandline; the package itself is "".

    >>> part_of("strandline.model.time"), part_of("strandline")
    ('model', '')
    """
    return module.split(".")[1] if "." in module else ""


def imports_of(tree: ast.AST) -> Iterator[Import]:
    """Every import, also inside functions; `from strandline import x` is an import of strandline.x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, frozenset[str]()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports are not used"
            assert node.module is not None
            yield node.module, frozenset(alias.name for alias in node.names)


def faults(module: str, source: str) -> list[str]:
    """Each import or call of the module that its ring does not allow, as a sentence."""
    tree = ast.parse(source)
    part = part_of(module)
    found: list[str] = []
    for imported, names in imports_of(tree):
        top = imported.split(".")[0]
        if top == "strandline":
            found += inward_faults(module, imported, names)
        elif top in sys.stdlib_module_names:
            if part in PURE and top in IMPURE_MODULES:
                found.append(f"{module} imports {top}: no clock, no chance and no files in {part}")
        else:
            found += outside_faults(module, top)
    if part in PURE:
        found += [f"{module} calls {call}()" for call in calls_of(tree) if call in IMPURE_CALLS]
    return found


def inward_faults(module: str, imported: str, names: frozenset[str]) -> list[str]:
    part = part_of(module)
    if part in OUTSIDE:
        return []
    targets = {part_of(imported)} if part_of(imported) else set(names)
    if part == "":  # the front door: everything but what stands outside it
        return [f"{module} imports {target}" for target in targets & OUTSIDE - BEHIND_THE_DOOR]
    if imported == "strandline" and not names:
        return [f"{module} imports the front door, strandline"]
    return [
        f"{module} imports {target}: outwards"
        for target in sorted(targets)
        if target != part and DEPTH.get(target, len(RINGS)) >= DEPTH[part]
    ]


def outside_faults(module: str, top: str) -> list[str]:
    part = part_of(module)
    allowed = ALLOWED.get(part)
    if top == "pyspark" and part not in {"spark", "testing"}:
        return [f"{module} imports pyspark: only spark does"]
    if allowed is not None and top not in allowed:
        return [f"{module} imports {top}: {part} knows only {', '.join(sorted(allowed)) or 'the standard library'}"]
    return []


def calls_of(tree: ast.AST) -> Iterator[str]:
    """The last two names of every call: `open`, `datetime.now`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ".".join(ast.unparse(node.func).split(".")[-2:])


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted((SOURCE / "strandline").rglob("*.py"))}


@pytest.mark.parametrize("module", MODULES)
def test_the_module_imports_inwards_only(module: str) -> None:
    assert faults(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("module", MODULES)
def test_the_module_stands_in_a_known_ring(module: str) -> None:
    assert part_of(module) in DEPTH.keys() | OUTSIDE | {""}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("strandline.model.time", "from strandline.kernel.merge import merge"),
        ("strandline.model.time", "from strandline import kernel"),
        ("strandline.model.time", "import strandline"),
        ("strandline.model.time", "def late():\n    import strandline.kernel.merge"),
        ("strandline.model.time", "import polars"),
        ("strandline.model.time", "import pyarrow as pa"),
        ("strandline.errors", "import numpy"),
        ("strandline.errors", "from strandline.model.time import Span"),
        ("strandline.kernel.merge", "from strandline.testing import play"),
        ("strandline.kernel.merge", "from strandline.store import segments"),
        ("strandline.kernel.merge", "import pyspark"),
        ("strandline.kernel.merge", "import duckdb"),
        ("strandline.kernel.merge", "import time"),
        ("strandline.kernel.merge", "import os.path"),
        ("strandline.kernel.merge", "from random import random"),
        ("strandline.kernel.merge", "import datetime\nx = datetime.datetime.now()"),
        ("strandline.model.time", "from datetime import datetime\nx = datetime.now(None)"),
        ("strandline.kernel.codec", "open('state')"),
        ("strandline.sources.files", "from strandline.sinks import files"),
        ("strandline.sources.files", "from pyspark.sql import SparkSession"),
        ("strandline.operations.journal", "import strandline.cli"),
        ("strandline", "from strandline.testing import play"),
        ("strandline", "import pyspark"),
        ("strandline", "from strandline.demo import crash"),
        ("strandline.cli.main", "from strandline.running import Flow"),
    ],
)
def test_a_module_that_breaks_a_ring_is_found(module: str, source: str) -> None:
    assert faults(module, source) != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("strandline.kernel.merge", "import polars as pl\nfrom strandline.model.time import Span"),
        ("strandline.model.windows", "import numpy as np\nfrom strandline.model import time"),
        ("strandline.spark.run", "import pyspark\nimport time\nfrom strandline.sources import files"),
        ("strandline.testing.play", "from strandline.kernel.advance import advance\nimport hypothesis"),
        ("strandline", "from strandline.running import Flow"),
        ("strandline.connectors", "from strandline.sources import files\nfrom strandline.sinks import console"),
    ],
)
def test_a_module_that_keeps_to_its_ring_is_not(module: str, source: str) -> None:
    assert faults(module, source) == []


def test_importing_strandline_imports_neither_pyspark_nor_hypothesis() -> None:
    question = "import sys, strandline; print({'pyspark', 'hypothesis', 'pytest'} & sys.modules.keys())"
    answer = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert answer.stdout.strip() == "set()"

"""Mistakes that only a run on Spark can find: in a user's own functions, in servers, in an old state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kept import keep, per_minute
from tests.mistakes.mistake import Mistake

RUN: Final = "run flow.py --state state --until caught_up"

EVENTS: Final = """\
import strandline as sl

flow = sl.Flow("shop")
orders = flow.source(
    "orders",
    sl.Rows([{"user": "ann", "amount": 5.0, "at": "2026-01-01T12:00:00Z"}], schema="user string, amount double, at timestamp"),
    time="at",
)
"""


@contextmanager
def old_state(folder: Path) -> Iterator[None]:
    """The state of a flow `stored` with a stage `stage` of windows of one minute."""
    keep(folder / "state", per_minute())
    yield


def flow(lines: str) -> dict[str, str]:
    """The file of a flow that reads one event."""
    return {"flow.py": f"{EVENTS}{lines}\n"}


def run(title: str, says: str, lines: str, *, code: int = 1) -> Mistake:
    """A run of such a flow."""
    return Mistake(title=title, says=says, lines=lines, files=flow(lines), command=RUN, code=code)


def old(title: str, says: str, lines: str, options: str = "") -> Mistake:
    """A run where there is an old state."""
    return Mistake(
        title=title, says=says, lines=lines, files=flow(lines), command=RUN + options, code=1, around=old_state
    )


IN_A_RUN: Final = (
    run(
        "A function for each tick that fails", "close_up raised ZeroDivisionError (/home/ann/shop/flow.py, line 10)",
        'def close_up(rows, tick):\n    return 1 / 0\n\norders.sink("out", sl.ForeachTick(close_up))',
    ),
    run(
        "A transform that asks for what is not there", "flow.py, line 10",
        'def priced(frame):\n    return frame.select("price")\n\n'
        'orders.transform(priced, schema="price double, at timestamp").sink("out", sl.Memory(), rows="append")',
    ),
    run(
        "A transform whose function fails in a worker", "flow.py, line 11",
        "def halved(frames):\n    for frame in frames:\n        raise ValueError('no change left')\n        yield frame\n\n"
        'orders.transform(\n    lambda frame: frame.mapInPandas(halved, frame.schema), schema="user string, amount double, at timestamp",\n'
        ').sink("out", sl.Memory(), rows="append")',
    ),
    run(
        "A process that fails", "flow.py, line 13",
        "class Seen(sl.Process):\n    count = sl.Value('long')\n\n    def on_event(self, row, out):\n        raise KeyError('price')\n\n"
        'orders.key_by("user").process("seen", Seen, output="n long").sink("out", sl.Memory(), rows="append")',
    ),
    run(
        "An aggregate that fails", "flow.py, line 17",
        "class Product(sl.Aggregate):\n    columns = ('amount',)\n    result = 'double'\n\n    def start(self):\n        return 1\n\n"
        "    def add(self, accumulator, amount):\n        return accumulator * amount['net']\n\n"
        "    def merge(self, left, right):\n        return left * right\n\n    def output(self, accumulator):\n        return accumulator\n\n"
        'totals = orders.key_by("user").window(sl.Tumbling("1m")).aggregate("totals", product=Product())\n'
        'totals.sink("out", sl.Memory())',
    ),
    run(
        "A lookup that fails", "flow.py, line 10",
        "async def priced(user):\n    raise LookupError('no such user')\n\n"
        'orders.lookup("priced", priced, on="user", output="price double", on_error="fail").sink("out", sl.Memory(), rows="append")',
    ),
    run(
        "A value that is no number, converted", "ann",
        'orders.with_column("number", "cast(user as int)").sink("out", sl.Memory(), rows="append")',
    ),
    run(
        "A database that does not answer", "Connection refused",
        'orders.sink("out", sl.Database("postgresql://ann@127.0.0.1:1/shop").write("orders"), rows="append")',
    ),
    run(
        "A Redis that does not answer", "localhost",
        'orders.sink("out", sl.Redis("redis://localhost:1").write("orders:", wait="1s"), rows="upsert", key=["user"])',
    ),
    run(
        "A secret that is not set", "SHOP_PASSWORD",
        'shop = sl.Database("postgresql://ann@localhost/shop", password=sl.Secret.env("SHOP_PASSWORD"))\n'
        'orders.sink("out", shop.write("orders"), rows="append")',
    ),
    old("The state of another flow", "is that of the flow", 'orders.sink("out", sl.Memory(), rows="append")'),
    old(
        "An old state, and windows that were changed", "or the stage was changed",
        'flow.name = "stored"\n'
        'totals = orders.with_column("x", "amount").key_by("user").window(sl.Tumbling("5m"), lateness="5m").aggregate(  # of 1m before\n'
        '    "stage", n=sl.Count(), total=sl.Sum("x")\n)\ntotals.sink("out", sl.Memory(), rows="changelog")',
    ),
    old(
        "An old state, and a stage that is gone", "which the flow has no more",
        'flow.name = "stored"\norders.sink("out", sl.Memory(), rows="append")  # it had a stage before',
    ),
    old(
        "A savepoint that is not there, to go back to", "There is no savepoint",
        'orders.sink("out", sl.Memory(), rows="append")', " --from-savepoint befor",
    ),
)  # fmt: skip

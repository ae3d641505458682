"""Mistakes in what a flow says: all of them are found before anything starts."""

from __future__ import annotations

from typing import Final

from tests.mistakes.mistake import Mistake

STAGE: Final = 'totals = orders.key_by("user").window(sl.Tumbling("1m")).aggregate("totals", n=sl.Count())'

IN_A_FLOW: Final = (
    Mistake(
        title="A key that is no column", says="Did you mean 'user'?",
        lines='totals = orders.key_by("usr").window(sl.Tumbling("1m")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A column that is no number, summed up", says="needs a number, not string",
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m")).aggregate("totals", most=sl.Sum("user"))',
    ),
    Mistake(
        title="An aggregate of a column that is not there", says="Did you mean 'amount'?",
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m")).aggregate("totals", most=sl.Sum("ammount"))',
    ),
    Mistake(
        title="A condition with a column that is not there", says="Did you mean 'amount'?",
        lines=f'orders = orders.where("amuont > 10")\n{STAGE}',
    ),
    Mistake(
        title="A condition that cannot be read", says="cannot be read", code=2,
        lines=f'orders = orders.where("amount >> > 10")\n{STAGE}',
    ),
    Mistake(
        title="A condition that is neither true nor false", says="needs a condition",
        lines=f'orders = orders.where("amount + 1")\n{STAGE}',
    ),
    Mistake(
        title="A time that is no time", says="is string, not timestamp",
        lines='again = flow.source("again", sl.Rows([], schema="at string"), time="at")\nagain.sink("out", sl.Memory(), rows="append")',
    ),
    Mistake(
        title="A time that is no column", says="Did you mean 'at'",
        lines='again = flow.source("again", sl.Rows([], schema="at timestamp"), time="att")\nagain.sink("out", sl.Memory(), rows="append")',
    ),
    Mistake(
        title="A type that does not exist", says="strng", code=2,
        lines='again = flow.source("again", sl.Rows([], schema="user strng, at timestamp"), time="at")',
    ),
    Mistake(
        title="A span of time in words", says="1 minuet", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumbling("1 minuet")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A span of time as a number", says="60", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumbling(60)).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A session without a gap", says="gap", code=2,
        lines='totals = orders.key_by("user").window(sl.Session(gap="0s")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="Hopping windows with gaps between them", says="every", code=2,
        lines='totals = orders.key_by("user").window(sl.Hopping("1m", every="2m")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A time zone that does not exist", says="Europe/Berlim", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumbling("1d", zone="Europe/Berlim")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A lateness below zero", says="lateness", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m"), lateness="-1m").aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A mode that does not exist", says="retracting", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m"), mode="retract").aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="A trigger that ends while events may still come", says="never shown",
        lines='totals = orders.key_by("user").window(sl.Tumbling("1m"), trigger=sl.AfterCount(100)).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="Panes that are shown again, summed up again", says="retracting",
        lines=(
            'each = orders.key_by("user").window(sl.Tumbling("1m"), lateness="5m").aggregate("each", n=sl.Count())\n'
            'totals = each.key_by().window(sl.Tumbling("1h")).aggregate("totals", n=sl.Sum("n"))'
        ),
    ),
    Mistake(
        title="Panes that are shown again, appended", says="a reader could not tell",
        lines=(
            'each = orders.key_by("user").window(sl.Tumbling("1m"), lateness="5m").aggregate("each", n=sl.Count())\n'
            'each.sink("out", sl.Files("out").write(format="json"), rows="append", columns=["user", "n"])'
        ),
    ),
    Mistake(title="A flow that reads nothing", says="reads nothing", lines='flow = sl.Flow("shop")'),
    Mistake(
        title="Two stages of one name", says="the identity of its state",
        lines=f'{STAGE}\nagain = orders.key_by("user").window(sl.Tumbling("1h")).aggregate("totals", n=sl.Count())',
    ),
    Mistake(
        title="Two sinks that write to one folder", says="have one target",
        lines=(
            'orders.sink("first", sl.Files("out").write(format="json"))\n'
            'orders.sink("second", sl.Files("out").write(format="json"))'
        ),
    ),
    Mistake(
        title="A flow that reads the files that it writes", says="would feed itself",
        lines=(
            'files = sl.Files("data")\n'
            'again = flow.source("again", files.read(format="json", schema="user string, at timestamp"), time="at")\n'
            'again.sink("out", files.write(format="json"))'
        ),
    ),
    Mistake(
        title="A format that does not exist", says="jsonl", code=2,
        lines='again = flow.source("again", sl.Files("data").read(format="jsonl", schema="at timestamp"), time="at")',
    ),
    Mistake(
        title="A sink for a column that is not there", says="Did you mean 'amount'?",
        lines='orders.sink("out", sl.Memory(), columns=["user", "amont"])',
    ),
    Mistake(
        title="An upsert without a key", says="key",
        lines='orders.sink("out", sl.Database("sqlite:///out.db").write("orders"), rows="upsert")',
    ),
    Mistake(
        title="A join of keys that have different types", says="amount",
        lines=(
            'others = flow.source("others", sl.Rows([], schema="user string, at timestamp"), time="at")\n'
            'totals = orders.key_by("amount").join("both", others.key_by("user"), within=sl.Before("1h"))'
        ),
    ),
    Mistake(
        title="A method that does not exist", says="Did you mean 'key_by'?", code=2, lines='totals = orders.keyby("user")',
    ),
    Mistake(
        title="A window that does not exist", says="Did you mean 'Tumbling'?", code=2,
        lines='totals = orders.key_by("user").window(sl.Tumblin("1m")).aggregate("totals", n=sl.Count())',
    ),
)  # fmt: skip

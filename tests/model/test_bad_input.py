"""What makes no sense is refused where it is written, with what is wrong and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

import strandline as sl
from strandline.errors import StrandlineError
from tests.model.checking import Plain

MINUTES = sl.Tumbling("1m")
NEGATIVE = timedelta(seconds=-1)


class Column:
    """As PySpark's: it is no text, and looks like an expression."""

    def __repr__(self) -> str:
        return "Column<'(amount > 3)'>"


def orders(**options: Any) -> sl.Stream:
    source = sl.Rows(schema="user string, amount double, at timestamp")
    return sl.Flow("f").source("orders", source, **{"time": "at", **options})


def joined(**options: Any) -> sl.Stage:
    left = orders()
    return left.key_by("user").join("itself", left.key_by("user"), within=sl.After("1h"), **options)


def table(**options: Any) -> sl.Table:
    stream = orders()
    return stream.flow.table("known", stream, key="user", **options)


class Shift(sl.CustomWindow):
    longest = "8h"  # type: ignore[assignment]

    def assign(self, time: sl.Instant, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 1)]


class Chosen(Plain):
    where = 3  # type: ignore[assignment]


def windowed(window: Any = MINUTES, **options: Any) -> Any:
    return orders().key_by("user").window(window, **options)


def source(given: Any, **options: Any) -> sl.Stream:
    return sl.Flow("f").source("s", given, **{"time": "at", **options})


SPANS: dict[str, Callable[[], Any]] = {
    "'10 parsecs' cannot be read": lambda: sl.Span.of("10 parsecs"),
    "The span '' cannot be read": lambda: sl.Span.of(""),
    "The span '-5s' cannot be read": lambda: sl.Span.of("-5s"),
    "text or a timedelta, not 10.": lambda: sl.Span.of(10),  # type: ignore[arg-type]
    "text or a timedelta, not None": lambda: sl.Span.of(None),  # type: ignore[arg-type]
    "finer than a microsecond": lambda: sl.Span.of("0.5us"),
    "'3660001d' is longer than 10,000 years": lambda: sl.Span.of("3660001d"),
    "The span '-999999999d' is longer than 10,000 years": lambda: sl.Span.of(timedelta(days=-999_999_999)),
    "'999999999d' is longer than 10,000 years": lambda: windowed(lateness=timedelta(days=999_999_999)),
    f"The span '{'9' * 5000}s' cannot be read": lambda: sl.Span.of("9" * 5000 + "s"),
    "lateness='-1s' is negative": lambda: windowed(lateness=NEGATIVE),
    "'soon' cannot be read": lambda: windowed(lateness="soon"),
    "delay='-1s' is too short": lambda: sl.Bounded(NEGATIVE),
    "idle_after='0s' is too short": lambda: sl.Bounded("1s", idle_after="0s"),
}
INSTANTS: dict[str, Callable[[], Any]] = {
    "2026-01-01T12:00:00 has no time zone": lambda: sl.Instant.of("2026-01-01T12:00:00"),
    "2026-01-01T00:00:00 has no time zone": lambda: sl.Instant.of(datetime(2026, 1, 1)),  # noqa: DTZ001  # on purpose
    "'noon' cannot be read": lambda: sl.Instant.of("noon"),
    "'2026-13-01T00:00:00Z' cannot be read": lambda: sl.Instant.of("2026-13-01T00:00:00Z"),
    "not 1.5": lambda: sl.Instant.of(1.5),  # type: ignore[arg-type]
    "not True": lambda: sl.Instant.of(True),
}
WINDOWS: dict[str, Callable[[], Any]] = {
    "size='0s' is not positive": lambda: sl.Tumbling("0s"),
    "size='-1s' is not positive": lambda: sl.Tumbling(NEGATIVE),
    "A window of size zero": lambda: sl.Tumbling("0d"),
    "size zero holds no event": lambda: sl.Tumbling("0mo", zone="UTC"),
    "A window of 12001mo is longer than 1000 years": lambda: sl.Tumbling("12001mo"),
    "A window of 366001d is longer than 1000 years": lambda: sl.Tumbling("366001d", zone="UTC"),
    "A window of 60000w is longer than 1000 years": lambda: sl.Tumbling("60000w", zone="UTC"),
    "is longer than 10,000 years": lambda: sl.Tumbling(sl.Span(2**70)),
    "'Europe/Berln' is not known": lambda: sl.Tumbling("1d", zone="Europe/Berln"),
    "does not follow a calendar": lambda: sl.Tumbling("1h", zone="Europe/Berlin"),
    "zone= and zone_column= are both given": lambda: sl.Tumbling("1d", zone="UTC", zone_column="zone"),
    "Hopping windows need every=": lambda: sl.Hopping("1m"),
    "A hop of 2m is longer than the window of 1m": lambda: sl.Hopping("1m", every="2m"),
    "every='0s' is not positive": lambda: sl.Hopping("1m", every="0s"),
    "'1mo' cannot be read": lambda: sl.Hopping("1mo", every="1d"),
    "a gap or a gap_column": sl.Session,
    "a gap_column, and not both": lambda: sl.Session("1s", gap_column="gap"),
    "gap='0s' is not positive": lambda: sl.Session("0s"),
    "ttl='0s' is not positive": lambda: sl.Global(ttl="0s"),
    "gap_column=4 names no column": lambda: sl.Session(gap_column=4),  # type: ignore[arg-type]
    "zone_column=5 names no column": lambda: sl.Tumbling("1d", zone_column=5),  # type: ignore[arg-type]
    "inclusive='no' is neither True nor False": lambda: sl.Session("1m", inclusive="no"),  # type: ignore[arg-type]
    "coalesce='no' is neither": lambda: windowed(coalesce="no"),
    "allow_loss='no' is neither": lambda: windowed(allow_loss="no"),
    "`longest` of Shift is '8h', no span": lambda: windowed(Shift()),
    "the class Tumbling itself is no window": lambda: windowed(sl.Tumbling),
    "'1m' is no window": lambda: windowed("1m"),
    "mode='retract' is not known": lambda: windowed(mode="retract"),
    "on_time='maybe' is not known": lambda: windowed(on_time="maybe"),
    "timestamp='start' is not known": lambda: windowed(timestamp="start"),
}
TRIGGERS: dict[str, Callable[[], Any]] = {
    "trigger=the class AfterWatermark itself": lambda: windowed(trigger=sl.AfterWatermark),
    "trigger='AfterWatermark' is no trigger": lambda: windowed(trigger="AfterWatermark"),
    "not the class AfterCount itself": lambda: sl.AfterWatermark(early=sl.AfterCount),  # type: ignore[arg-type]
    "not the class Never itself": lambda: sl.Repeatedly(sl.Never),  # type: ignore[arg-type]
    "AfterAny takes triggers, not [": lambda: sl.AfterAny([sl.AfterCount(1)]),  # type: ignore[arg-type]
    "AfterAll needs at least one": sl.AfterAll,
    "AfterWatermark takes triggers by name": lambda: sl.AfterWatermark(sl.AfterCount(1)),  # type: ignore[arg-type]
    "from 1, not 0": lambda: sl.AfterCount(0),
    "from 1, not 1.5": lambda: sl.AfterCount(1.5),  # type: ignore[arg-type]
    "exact='no' is neither": lambda: sl.AfterCount(3, exact="no"),  # type: ignore[arg-type]
    "crossing=1 is neither": lambda: sl.When("n > 3", crossing=1),  # type: ignore[arg-type]
    "needs a delay or aligned_to=": sl.AfterProcessingTime,
    "AfterProcessingTime is negative": lambda: sl.AfterProcessingTime(NEGATIVE),
    "aligned_to= must be a positive span": lambda: sl.AfterProcessingTime(aligned_to="0s"),
    "When takes a text expression in Spark SQL, not Column": lambda: sl.When(Column()),  # type: ignore[arg-type]
    "OnEvent takes a text expression in Spark SQL, not ' '": lambda: sl.OnEvent(" "),
}
AGGREGATES: dict[str, Callable[[], Any]] = {
    "n=the class Count itself is no aggregate": lambda: windowed().aggregate("s", n=sl.Count),
    "n='count' is no aggregate": lambda: windowed().aggregate("s", n="count"),
    "The stage 's' computes nothing": lambda: windowed().aggregate("s"),
    "Sum takes the name of a column as text, not Column": lambda: sl.Sum(Column()),  # type: ignore[arg-type]
    "Max takes the name of a column as text, not None": lambda: sl.Max(None),  # type: ignore[arg-type]
    "Ewma takes the name": lambda: sl.Ewma(3, half_life="1m"),  # type: ignore[arg-type]
    "where= of Count takes text": lambda: sl.Count(where=Column()),  # type: ignore[arg-type]
    "by= of TopK takes text": lambda: sl.TopK("user", 3, by=Column()),  # type: ignore[arg-type]
    "`where` of Chosen takes a text expression": lambda: windowed().aggregate("s", n=Chosen()),
    "exact=0 is neither": lambda: sl.Sum("amount", exact=0),  # type: ignore[arg-type]
    "population='no' is neither": lambda: sl.Variance("amount", population="no"),  # type: ignore[arg-type]
    "population=None is neither": lambda: sl.StdDev("amount", population=None),  # type: ignore[arg-type]
    "q=95 is no quantile": lambda: sl.Quantile("amount", 95),
    "q=() is no quantile": lambda: sl.Quantile("amount", ()),
    "q=True is no quantile": lambda: sl.Quantile("amount", True),
    "q=(0.5, False) is no quantile": lambda: sl.Quantile("amount", (0.5, False)),
    "error='small' is out of range": lambda: sl.Quantile("amount", 0.5, error="small"),  # type: ignore[arg-type]
    "k=0 is no number of values": lambda: sl.TopK("user", 0),
    "precision=20 is out of range": lambda: sl.ApproxDistinct("user", precision=20),
    "The half-life is not positive": lambda: sl.Ewma("amount", half_life="0s"),
}
STREAMS: dict[str, Callable[[], Any]] = {
    ".where() takes a text expression in Spark SQL, got Column": lambda: orders().where(Column()),  # type: ignore[arg-type]
    ".select() takes a text expression": lambda: orders().select(Column()),  # type: ignore[arg-type]
    ".with_column() takes a text expression": lambda: orders().with_column("a", Column()),  # type: ignore[arg-type]
    "not the name 3": lambda: orders().with_column(3, "amount"),  # type: ignore[arg-type]
    ".key_by() takes the names of columns as text, not Column": lambda: orders().key_by(Column()),  # type: ignore[arg-type]
    "not ['user']": lambda: orders().key_by(["user"]),  # type: ignore[arg-type]
    ".select() without columns": lambda: orders().select(),
    "'amount >' cannot be read: a part of it is missing": lambda: orders().where("amount >"),
    "cannot be read: a ')' is missing": lambda: orders().where("(amount"),
    "cannot be read: a quote is not closed": lambda: orders().where("user = 'ann"),
    "cannot be read: '2' is not expected there": lambda: orders().where("1 2"),
    "cannot be read: it holds 2 expressions": lambda: orders().where("user, amount"),
    "* in '*' stands for every column": lambda: orders().select("*"),
    "gives another answer each time": lambda: orders().where("rand() > 0.5"),
    ".transform() takes a function": lambda: orders().transform("x"),  # type: ignore[arg-type]
    ".window() stands behind .key_by()": lambda: orders().window(MINUTES),
    ".aggregate() stands behind .window()": lambda: orders().key_by("user").aggregate("s", n=sl.Count()),
    "aggregate() stands behind .window()": lambda: orders().aggregate("s", n=sl.Count()),
    "Only a source and a stage reject rows": lambda: orders().where("amount > 1").rejected,
    "Only a stage has late rows": lambda: orders().late,
    "A stage without a name": lambda: windowed().aggregate(n=sl.Count()),
}
SALTED: dict[str, Callable[[], Any]] = {
    "what the stage 'once' remembers of a key must be in one": lambda: orders().dedupe(
        "once", on="user", within="1h", salt=8  # type: ignore[arg-type]
    ),
    "what the stage 'mine' remembers of a key must be in one": lambda: orders().key_by("user").process(
        "mine", sl.Process, output="n bigint", salt=8  # type: ignore[arg-type]
    ),
    "what the stage 'found' remembers of a key must be in one": lambda: orders().key_by("user").detect(
        "found", sl.sequence(sl.step("a", "n = 1"), within="1h"), salt=8  # type: ignore[arg-type]
    ),
    "what the stage 'features' remembers of a key must be in one": lambda: orders().key_by("user").over(
        "features", n_1h=sl.Count(within="1h"), salt=8  # type: ignore[arg-type]
    ),
    "salt=True is not over how many places": lambda: joined(salt=True),
    "salt=1 is not over how many places": lambda: joined(salt=1),
    "how='full' shows rows of both sides without a match": lambda: joined(salt=2, how="full"),
    "broadcast='yes' is neither True nor False": lambda: table(broadcast="yes"),
}  # fmt: skip
FLOWS: dict[str, Callable[[], Any]] = {
    "'a b' cannot be the name of a flow": lambda: sl.Flow("a b"),
    "'' cannot be the name of a flow": lambda: sl.Flow(""),
    "'a/b' cannot be the name of a source": lambda: sl.Flow("f").source(
        "a/b", sl.Rows(schema="at timestamp"), time="at"
    ),
    "'a b' cannot be the name of a stage": lambda: windowed().aggregate("a b", n=sl.Count()),
    "buckets=0 is out of range": lambda: sl.Flow("f", buckets=0),
    "buckets=True is out of range": lambda: sl.Flow("f", buckets=True),
    "advance_when_idle='no' is neither": lambda: sl.Bounded("1s", advance_when_idle="no"),  # type: ignore[arg-type]
    "buckets='4' is out of range": lambda: sl.Flow("f", buckets="4"),  # type: ignore[arg-type]
    "[1, 2] is no source": lambda: source([1, 2]),
    "time=None names no column": lambda: sl.Flow("f").source("s", sl.Rows(schema="at timestamp")),
    "time=the class Arrival itself": lambda: orders(time=sl.Arrival),
    "watermark=the class Bounded itself": lambda: orders(watermark=sl.Bounded),
    "watermark='20s' is no watermark policy": lambda: orders(watermark="20s"),
    "99 is no quantile": lambda: sl.Percentile(99),
    "3 names no column": lambda: sl.FromSource(3),  # type: ignore[arg-type]
    "The type 'strng' in 'user strng' is not known": lambda: sl.Rows(schema="user strng"),
    "No column can have Spark's type 'time', as in 'at time(3)'": lambda: sl.Rows(schema="at time(3)"),
    "No column can have Spark's type 'map'": lambda: sl.Rows(schema="tags map<string,int>"),
    "No column can have Spark's type 'interval year to month'": lambda: sl.Rows(schema="age interval month"),
    "an interval goes from day": lambda: sl.Rows(schema="age interval day to month"),
    "behind a type nothing may stand, such as 'not'": lambda: sl.Rows(schema="user string not null"),
    "the column 'a' stands twice": lambda: sl.Rows(schema="a int, a int"),
    "expected a word, found the end": lambda: sl.Rows(schema=""),
    "given as text, not None": lambda: sl.Rows(schema=None),  # type: ignore[arg-type]
    "decimal(40,2) needs 1 to 38 digits": lambda: sl.Rows(schema="a decimal(40,2)"),
    "Row 1 has a column 'usr'": lambda: sl.Rows([{"usr": "ann"}], schema="user string"),
    "Row 1, column 'n': 'x' is no int": lambda: sl.Rows([{"n": "x"}], schema="n int"),
    "has no time zone": lambda: sl.Rows([{"at": "2026-01-01T12:00:00"}], schema="at timestamp"),
}


class Batches(sl.BatchLookup):
    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def ask(self, keys: Any) -> Any:
        return keys


OPERATORS: dict[str, Callable[[], Any]] = {
    ".join() stands behind .key_by()": lambda: orders().join("paid", orders()),
    ".over() stands behind .key_by()": lambda: orders().over("features", n=sl.Count(within="1h")),
    ".process() stands behind .key_by()": lambda: orders().process("p", object, output="n int"),
    ".detect() stands behind .key_by()": lambda: orders().detect("found"),
    ".dedupe() takes rows without .key_by()": lambda: orders().key_by("user").dedupe("once", on="user", within="1h"),
    ".join_table() takes rows without .key_by()": lambda: orders().key_by("user").join_table("known", table()),
    ".lookup() takes rows without .key_by()": lambda: orders().key_by("user").lookup("asked", repr),
    ".sink() takes rows without .key_by()": lambda: orders().key_by("user").sink("out", sl.Memory()),
    "on=None names no column": lambda: orders().dedupe("once", within="1h"),
    "The dedupe 'once' does not say for how long rows are remembered": lambda: orders().dedupe("once", on="user"),
    "key=None names no column": lambda: (stream := orders()).flow.table("known", stream),
    "A table takes a stream of this flow, not None": lambda: sl.Flow("f").table("known", key="user"),
    "A table takes a stream of this flow, not a Stream.": lambda: sl.Flow("f").table("known", orders(), key="user"),
    "a Stream is no table of this flow": lambda: (stream := orders()).join_table("known", stream),  # type: ignore[arg-type]
    "output=None does not say which columns": lambda: orders().lookup("asked", repr, on="user"),
    "salt=8 is not for a lookup": lambda: orders().lookup("asked", repr, on="user", output="t string", salt=8),  # type: ignore[arg-type]
    "salt=8 is not for a join with a table": lambda: orders().join_table("known", table(), salt=8),  # type: ignore[arg-type]
    "batch=0 of Batches is no number of keys": lambda: orders().lookup("a", Batches(0), on="user", output="t string"),
    "batch='x' of Batches is no number": lambda: orders().lookup("a", Batches("x"), on="user", output="t string"),
    "The span '-1h' is negative": lambda: sl.Before("-1h"),
}
ALL = {**SPANS, **INSTANTS, **WINDOWS, **TRIGGERS, **AGGREGATES, **STREAMS, **SALTED, **FLOWS, **OPERATORS}


@pytest.mark.parametrize("what", ALL)
def test_it_is_refused_with_what_is_wrong_and_a_fix(what: str) -> None:
    with pytest.raises(StrandlineError) as caught:
        ALL[what]()
    assert what in caught.value.what
    assert caught.value.what.endswith((".", "!", "?"))
    assert caught.value.fix.endswith((".", "!", "?"))
    assert "<class" not in str(caught.value)
    assert " at 0x" not in str(caught.value)


def test_a_policy_of_ones_own_is_told_what_to_derive_from() -> None:
    class Own:
        def update(self, stats: Any, state: Any) -> Any:
            return state.greatest

    with pytest.raises(StrandlineError, match=r"derive your own from sl\.Policy"):
        orders(watermark=Own())


def test_the_nearest_type_is_offered() -> None:
    with pytest.raises(StrandlineError, match="Did you mean 'string'"):
        sl.Schema.of("user strng")


def test_an_aggregate_may_have_any_name_that_a_column_may() -> None:
    (risk,) = windowed().aggregate("s", name=sl.Count(), self=sl.Count()).flow.check()
    assert "has no sink" in risk

"""A run at a glance, from its journal."""

from __future__ import annotations

from html.parser import HTMLParser

from strandline.model.time import Instant
from strandline.operations.overview import Totals, overview, worst_first
from strandline.operations.overview_html import overview_html
from tests.cli.test_panel import NOON, SECOND, partition, record


def test_rates_are_of_what_came_between_the_first_and_the_last_of_the_recent_ticks() -> None:
    found = overview([record(tick) for tick in range(0, 100, 2)])
    assert found is not None
    assert (found.rate_in, found.rate_out, found.stages[0].growth) == (50.0, 4.0, 1.0)


def test_of_one_tick_no_rate_is_known() -> None:
    found = overview([record(3)])
    assert found is not None
    assert (found.rate_in, found.backlog_growth, found.stages[0].growth) == (None, None, None)


def test_totals_outlive_the_records() -> None:
    totals = Totals()
    for tick in range(10):
        totals = totals.after(record(tick))
    found = overview([record(9)], totals)
    assert found is not None
    assert (found.totals.ticks, found.totals.rows, found.stages[0].panes["early"], found.sinks[0].rows) == (
        10,
        1000,
        40,
        80,
    )


def test_who_holds_the_watermark_stands_before_who_is_idle() -> None:
    told = {"a": partition(3), "b": partition(60, idle=True), "c": partition(9)}
    found = overview([record(partitions={"orders": told})])
    assert found is not None
    assert [each.name for each in worst_first(found.partitions)] == ["c", "a", "b"]


class Tags(HTMLParser):
    """The tags of a document, each closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.seen = list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_gets_html_in_which_no_name_is_markup() -> None:
    found = overview([record(0), record(1, hottest={"totals": [{"key": "<script>", "rows": 1, "share": 0.1}]})])
    text = overview_html("<i>&", found, Instant(NOON + 2 * SECOND), running=True)
    tags = Tags(text)
    assert (tags.open, tags.seen) == ([], {"div", "b", "span", "table", "tr", "th", "td"})
    assert "&lt;script&gt; 10%" in text
    assert "holds it: the furthest behind" in text


def test_a_notebook_is_told_that_there_is_no_tick_yet() -> None:
    assert "no tick yet" in overview_html("shop", None, NOON, running=True)


def test_a_notebook_gets_the_tables_of_the_panel() -> None:
    many = {f"orders/{number}": partition(number) for number in range(40)}
    found = overview([record(partitions={"orders": many}, sinks={"ta\nble": {"rows": 8, "pending": 1}})])
    assert found is not None
    text = overview_html("shop", found, NOON, running=True)
    for cell in ("orders, 12 of 40", "orders/39", "39.0s", "ta\\nble", "1 tick behind", "dropped"):
        assert f">{cell}</t" in text, cell

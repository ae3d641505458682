"""Follow a run: one line for each tick in which something happened, from the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

from strandline.errors import StrandlineError
from strandline.model.time import Instant, Span
from strandline.operations.said import plural, visible
from strandline.store.journal import records
from strandline.store.manifests import Manifest, Manifests
from strandline.store.storage import Storage

LOOK_EVERY: Final = 0.3  # seconds
ASIDE: Final = {"late": "dropped", "rejected": "rejected"}
"""What the books of a tick count beside the rows that were kept, and how it is said: they call rows by their side output."""

See: TypeAlias = Callable[[Mapping[str, Any]], None]
"""What else is told of each record: the metrics."""


class Followed(Protocol):
    """What is followed: a run, which knows its head."""

    @property
    def head(self) -> Manifest | None:
        """What the last committed tick left."""


class Follower:
    """Prints what the journal says of each tick, once, in order. `told` and `looked` are what another way to show it changes."""

    def __init__(
        self,
        storage: Storage,
        say: Callable[[str], None],
        *,
        every_tick: bool,
        see: See | None = None,
    ) -> None:
        self.storage, self.say, self.every_tick, self.see = storage, say, every_tick, see
        head = Manifests(storage).head()
        self.next = 0 if head is None else head.number + 1
        self.amiss = ""  # the last that was said of the journal itself
        self.ticks = 0
        self.rows = 0

    @contextmanager
    def following(self, run: Followed) -> Iterator[None]:
        """Print while the run goes on; what is left to print is printed at the end."""
        over = threading.Event()
        thread = threading.Thread(target=self._follow, args=(run, over), name="follower", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._look()

    def told(self, record: Mapping[str, Any]) -> None:
        """Tell of a tick."""
        if self.every_tick or _happened(record):
            self.say(tick_line(record))

    def looked(self) -> None:
        """What is done each time that was looked for news."""

    def _follow(self, run: Followed, over: threading.Event) -> None:
        while not over.wait(LOOK_EVERY):
            head = run.head
            # The journal is listed only when there is news: in an object store that costs.
            if head is not None and head.number >= self.next:
                self._look()
            self.looked()

    def _look(self) -> None:
        """Whatever is wrong with the journal is no failure of the run, and hides none."""
        try:
            self._catch_up()
        except (StrandlineError, OSError) as error:
            if str(error) != self.amiss:
                self.say(f"the journal cannot be read just now: {error}")
            self.amiss = str(error)

    def _catch_up(self) -> None:
        for record in records(self.storage, since=self.next):
            self.next = record["tick"] + 1
            self.ticks += 1
            self.rows += _rows(record)
            if self.see is not None:
                self.see(record)
            self.told(record)


def tick_line(record: Mapping[str, Any]) -> str:
    """What a tick did, in one line.

    >>> print(tick_line({"tick": 5, "now": 1767268800000000, "books": {"orders": {"rows": 2500, "late": 3, "rejected": 1}},
    ...     "rows": {"orders": {"0": 2499}}, "panes": {"totals": {"early": 9, "on_time": 22}}, "sinks": {"table": {"rows": 17, "pending": 0}},
    ...     "watermarks": {"orders": 1767268790000000, "totals": 0}, "took": {"make": 450000, "commit": 10000}}))
    2026-01-01T12:00:00Z tick 5: 2,500 rows (3 dropped, 1 rejected), 31 panes, 17 to table, orders at 2026-01-01T11:59:50Z, 460ms
    """
    books = record.get("books", {}).values()
    aside = [f"{count:,} {said}" for word, said in ASIDE.items() if (count := sum(each.get(word, 0) for each in books))]
    parts = [plural(_rows(record), "row") + (f" ({', '.join(aside)})" if aside else "")]
    parts += [plural(shown, "pane") for shown in [_panes(record)] if shown]
    for name, sink in record.get("sinks", {}).items():
        behind = f" ({plural(sink['pending'], 'tick')} behind)" if sink.get("pending") else ""
        parts += [f"{sink['rows']:,} to {visible(name)}{behind}"] if sink["rows"] or behind else []
    sources = record.get("partitions", record.get("rows", {}))
    parts += [
        f"{visible(name)} at {_time(record['watermarks'][name])}" for name in sources if name in record["watermarks"]
    ]
    took = record.get("took", {})
    spent = sum(took.get(step, 0) for step in ("make", "commit", "publish"))
    parts += [Span(spent // 1000 * 1000).text] if spent else []
    return f"{_time(record['now'])} tick {record['tick']}: {', '.join(parts)}"


def _time(micros: int) -> str:
    """To the second: a log is read by people."""
    instant = Instant(micros)
    if instant in (Instant.BEFORE_ALL_TIME, Instant.END_OF_TIME):
        return instant.text
    return Instant(micros // 1_000_000 * 1_000_000).text


def _rows(record: Mapping[str, Any]) -> int:
    """The rows that were read, those that were rejected at once included."""
    sources, books = record.get("partitions", record.get("rows", {})), record.get("books", {})
    return sum(books[name]["rows"] for name in sources if name in books)


def _panes(record: Mapping[str, Any]) -> int:
    return sum(count for stage in record.get("panes", {}).values() for count in stage.values())


def _happened(record: Mapping[str, Any]) -> bool:
    delivered = any(sink["rows"] for sink in record.get("sinks", {}).values())
    return bool(_rows(record) or _panes(record) or delivered or record.get("finished"))

"""One Spark source for all of a flow's own sources, and its heartbeat.

Its offset is `{"now": microseconds, "sources": {name: offset}}`: Spark's offset log pins the tick's processing time and
how far every source is read, together. It moves with time alone, so that a tick happens when no data comes.

Spark starts several short-lived processes for each query that only want to know this class. It travels to them by value
(see `session`), and imports what it needs when it is asked to plan or to read: they need not import Strandline at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from strandline.sources.contract import Limit, Reader

FORMAT: Final = "strandline"
MESSAGES: Final = "meta string, data binary"
"""The columns of what tasks tell the driver."""
CONTEXT: Final = "strandline.context"
"""The local property in which the driver gives tasks the context of their tick."""


class StrandlineSource(DataSource):
    """All that a flow reads by its own means.

    Options: `readers`, for who plans; `program`, for who reads; `limits` (a file that the driver replaces); `tasks`.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Messages for the driver."""
        return MESSAGES

    def streamReader(self, schema: StructType) -> StrandlineReader:  # noqa: N802 - Spark's name
        """The reader that plans ticks and reads their parts."""
        given = self.options
        return StrandlineReader(given["readers"], given["program"], given["limits"], int(given["tasks"]))


class StrandlineReader(DataSourceStreamReader):
    """Plans in a process beside the driver; reads in workers."""

    def __init__(self, planned: str, program: str, limits: str, tasks: int) -> None:
        self.planned, self.program, self.limits, self.tasks = planned, program, limits, tasks

    @property
    def readers(self) -> Mapping[str, Reader]:
        """The flow's readers in this process."""
        from strandline.spark.texts import readers_of

        return readers_of(self.planned)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before everything."""
        return {"now": 0, "sources": {name: reader.first() for name, reader in self.readers.items()}}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the next tick goes. Processing time never stands still and never goes back, whatever the clock does."""
        from strandline.sources.contract import Limit
        from strandline.spark import clock

        now = max(int(start["now"]) + 1, int(clock.now()))
        limits = read_limits(self.limits)
        sources = {
            name: reader.latest(start["sources"].get(name) or reader.first(), limits.get(name, Limit()), now=now)
            for name, reader in self.readers.items()
        }
        return {"now": self._told(sources, now), "sources": sources}

    def _told(self, sources: Mapping[str, Any], now: int) -> int:
        """The time that a source itself tells, as those of tests do; else the clock's."""
        for name, reader in self.readers.items():
            if hasattr(reader, "now"):
                return int(reader.now(sources[name]))
        return now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of the tick, over all sources."""
        found = []
        for place, (name, reader) in enumerate(self.readers.items()):
            if name in end["sources"]:
                parts = reader.parts(start["sources"].get(name) or reader.first(), end["sources"][name], self.tasks)
                found += [InputPartition((name, part, (place, at))) for at, part in enumerate(parts)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, in a worker."""
        from pyspark import TaskContext

        from strandline.spark.parcels import batches
        from strandline.spark.program import work_of
        from strandline.spark.reading import Context, read_part

        source, part, order = partition.value
        task = TaskContext.get()
        assert task is not None, "Spark reads parts in tasks"
        context = Context.from_text(str(task.getLocalProperty(CONTEXT)))
        return batches(read_part(work_of(self.program), source, self.readers[source], part, order, context))


def read_limits(path: str) -> dict[str, Limit]:
    """What each source may take in the next tick, as the driver last said."""
    from strandline.sources.contract import Limit

    try:
        told = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return {}
    return {name: Limit(**each) for name, each in told.items()}


def write_limits(path: str, limits: Mapping[str, Limit]) -> None:
    """Say what each source may take; a reader sees the old file or the new one."""
    target = Path(path)
    fresh = target.with_suffix(".new")
    fresh.write_text(json.dumps({name: {"rows": each.rows, "bytes": each.bytes} for name, each in limits.items()}))
    fresh.replace(target)

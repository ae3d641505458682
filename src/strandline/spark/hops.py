"""Jobs of Spark's beside the reading of a tick: a user's transform, the steps of many shares, rows of a DataFrame source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from strandline.kernel.schema import polars_schema
from strandline.model.flow import Flow
from strandline.model.lineage import schema_of
from strandline.model.nodes import SourceNode, TransformNode
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sources.misfits import within_calendar
from strandline.sources.reading import by_partition
from strandline.spark.datasource import CONTEXT, MESSAGES
from strandline.spark.frames import from_batches, spark_schema, to_arrow
from strandline.spark.parcels import Parcel, batches
from strandline.spark.program import work_of
from strandline.spark.reading import Context, take_in
from strandline.spark.sending import send
from strandline.spark.stepping import Step, step
from strandline.store.storage import storage_at

Batches = Iterable[pa.RecordBatch]
Message = tuple[dict[str, Any], bytes]


def messages(frame: DataFrame) -> list[Message]:
    """Run a plan that gives messages, and collect them."""
    return [(json.loads(row["meta"]), row["data"]) for row in frame.collect()]


def step_shares(spark: SparkSession, program: str, task: Step) -> list[Message]:
    """Step every share of a stage, each in a task of its own."""

    def run(share: int) -> list[tuple[str, bytes]]:
        receipt, parcels = step(work_of(program), task, share)
        return [receipt.to_row(), *(parcel.to_row() for parcel in parcels)]

    count = len(task.shares)
    found = spark.sparkContext.parallelize(range(count), count).flatMap(run).collect()
    return [(json.loads(meta), data) for meta, data in found]


def through_transform(
    spark: SparkSession, program: str, place: int, node: TransformNode, parcels: Sequence[Parcel], context: Context, before: Instant
) -> list[Message]:  # fmt: skip
    """Put the rows of parcels through a user's function, and lead what it gives further on."""
    count = max(1, min(len(parcels), context.shares))
    first = parcels[0].open(storage_at(context.storage))[0]
    ordered = sorted(parcels, key=lambda parcel: parcel.order)
    frame = spark.range(0, count, 1, count).mapInArrow(
        _unpacking(ordered, count, context.storage), spark_schema(dict(first.schema))
    )
    return messages(node.function(frame).mapInArrow(_leading_on(program, place, context, before), MESSAGES))


def _unpacking(parcels: Sequence[Parcel], count: int, storage: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    cuts = [len(parcels) * n // count for n in range(count + 1)]

    def unpack(ids: Batches) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for at in batch.column(0).to_pylist():
                for parcel in parcels[cuts[at] : cuts[at + 1]]:
                    yield from to_arrow(parcel.open(storage_at(storage))[0]).to_batches(max_chunksize=65_536)

    return unpack


def _leading_on(
    program: str, place: int, context: Context, before: Instant
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def lead_on(rows: Batches) -> Iterator[pa.RecordBatch]:
        work, task = work_of(program), TaskContext.get()
        assert task is not None, "Spark runs this in tasks"
        node = work.nodes[place]
        assert isinstance(node, TransformNode)
        schema = schema_of(node)
        assert schema is not None, "a resolved transform knows its columns"
        frame = from_batches(rows, polars_schema(schema))
        if frame is None:
            return
        outgoing, order = work.follow(place, frame, before, context.now), (place, task.partitionId())
        sent = send(work, outgoing, storage_at(context.storage), context.tick, order, context.shares)
        yield from batches(parcel.to_row() for parcel in sent)

    return lead_on


def from_dataframe(frame: DataFrame, flow: Flow, program: str, node: SourceNode) -> DataFrame:
    """The rows of a DataFrame source as messages."""
    columns: Schema = node.source.schema
    partition_by = getattr(node.source, "partition_by", None)
    place = next(at for at, each in enumerate(flow.nodes) if each is node)
    name = node.name

    def take(rows: Batches) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None, "Spark runs this in tasks"
        context = Context.from_text(str(task.getLocalProperty(CONTEXT)))
        found = from_batches(rows, polars_schema(columns))
        if found is not None:
            pieces = by_partition(within_calendar(found, columns), partition_by)
            yield from batches(take_in(work_of(program), name, pieces, (place, task.partitionId()), context))

    return frame.select(*columns).mapInArrow(take, MESSAGES)

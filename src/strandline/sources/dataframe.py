"""Any streaming DataFrame of Spark as a source. Described here, read by Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from strandline.errors import DescriptionError, told
from strandline.model.options import require_column
from strandline.model.types import Schema


@dataclass(frozen=True, slots=True)
class DataFrameSource:
    """What `build(spark)` gives: a streaming DataFrame with the columns of `schema`.

    The schema is said here, because making a flow starts no JVM; the DataFrame is compared with it when the flow
    starts. Limits are those of the DataFrame's own source. It may hold no stateful operator. It is one partition,
    unless `partition_by` names the column that tells them apart. Some of Spark's sources, such as that of files, remember
    more than an offset: then the state must be on a local disk, and cannot be forked.

    >>> DataFrameSource(lambda spark: spark.readStream.table("orders"), schema="user string, at timestamp").schema.text
    'user string, at timestamp'
    """

    build: Callable[[Any], Any]
    _: KW_ONLY
    schema: Schema
    partition_by: str | None = None

    def __init__(self, build: Callable[[Any], Any], *, schema: str | Schema, partition_by: str | None = None) -> None:
        if not callable(build):
            raise DescriptionError(
                f"{told(build)} builds no DataFrame.",
                fix="Give a function of the Spark session: lambda spark: spark.readStream.table('orders').",
            )
        columns = Schema.of(schema)
        require_column("partition_by", partition_by)
        if partition_by is not None:
            columns.require(partition_by, "partition_by=")
        object.__setattr__(self, "build", build)
        object.__setattr__(self, "schema", columns)
        object.__setattr__(self, "partition_by", partition_by)

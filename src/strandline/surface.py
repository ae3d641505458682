"""All that users reach as `sl.something`. No ring imports this; `strandline` itself loads it when it is first asked."""

from strandline.clients.registry import Registry
from strandline.connectors import Database, Delta, Files, Http, Kafka, Redis
from strandline.errors import (
    CheckFailed,
    DataError,
    DescriptionError,
    ExpressionError,
    MissingFile,
    OwnershipError,
    RunError,
    SinkError,
    StateError,
    StorageError,
    StrandlineError,
    TranscriptError,
)
from strandline.model.aggregates import (
    Aggregate,
    ApproxDistinct,
    Collect,
    Count,
    Distinct,
    Ewma,
    First,
    Last,
    Max,
    Mean,
    Merge,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
)
from strandline.model.intervals import After, Around, Before, Between
from strandline.model.keyed import Keyed
from strandline.model.lookups import BatchLookup, Cache, Lookup
from strandline.model.nodes import Arrival
from strandline.model.patterns import absent, next, sequence, step  # noqa: A004 - sl.next
from strandline.model.process import TTL, List, Map, Process, Running, TableProcess, Timer, Value
from strandline.model.secrets import Secret
from strandline.model.streams import Stage, Stream
from strandline.model.tables import Table
from strandline.model.time import Instant, Span
from strandline.model.triggers import (
    AfterAll,
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Never,
    OnEvent,
    OrFinally,
    Repeatedly,
    When,
)
from strandline.model.types import Schema
from strandline.model.watermarks import Bounded, FromSource, Monotonic, Percentile, Policy
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling
from strandline.running import Flow, Run
from strandline.sinks.console import ConsoleSink as Console
from strandline.sinks.foreach import ForeachTick
from strandline.sinks.memory import MemorySink as Memory
from strandline.sources.dataframe import DataFrameSource
from strandline.sources.generator import Generator
from strandline.sources.rows import Rows

__all__ = [
    "TTL",
    "After",
    "AfterAll",
    "AfterAny",
    "AfterClose",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Aggregate",
    "ApproxDistinct",
    "Around",
    "Arrival",
    "BatchLookup",
    "Before",
    "Between",
    "Bounded",
    "Cache",
    "CheckFailed",
    "Collect",
    "Console",
    "Count",
    "CustomWindow",
    "DataError",
    "DataFrameSource",
    "Database",
    "Delta",
    "DescriptionError",
    "Distinct",
    "Ewma",
    "ExpressionError",
    "Files",
    "First",
    "Flow",
    "ForeachTick",
    "FromSource",
    "Generator",
    "Global",
    "Hopping",
    "Http",
    "Instant",
    "Kafka",
    "Keyed",
    "Last",
    "List",
    "Lookup",
    "Map",
    "Max",
    "Mean",
    "Memory",
    "Merge",
    "Min",
    "MissingFile",
    "Monotonic",
    "Never",
    "OnEvent",
    "OrFinally",
    "OwnershipError",
    "Percentile",
    "Policy",
    "Process",
    "Quantile",
    "Redis",
    "Registry",
    "Repeatedly",
    "Rows",
    "Run",
    "RunError",
    "Running",
    "SameWindow",
    "Schema",
    "Secret",
    "Session",
    "SinkError",
    "Span",
    "Stage",
    "StateError",
    "StdDev",
    "StorageError",
    "StrandlineError",
    "Stream",
    "Sum",
    "Table",
    "TableProcess",
    "Timer",
    "TopK",
    "TranscriptError",
    "Tumbling",
    "Value",
    "Variance",
    "When",
    "absent",
    "next",
    "sequence",
    "step",
]

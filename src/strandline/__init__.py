"""Strandline: a stream processor in Python on Spark.

What is computed, where in event time, when in processing time, and how refinements relate, answered exactly.
Importing this starts no JVM and does not import pyspark.
"""

from strandline.errors import (
    CheckFailed,
    DataError,
    DescriptionError,
    ExpressionError,
    StateError,
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
from strandline.model.flow import Arrival, Flow, Keyed, Stage, Stream
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
from strandline.sources.rows import Rows

__version__ = "0.1.0"

__all__ = [
    "AfterAll",
    "AfterAny",
    "AfterClose",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Aggregate",
    "ApproxDistinct",
    "Arrival",
    "Bounded",
    "CheckFailed",
    "Collect",
    "Count",
    "CustomWindow",
    "DataError",
    "DescriptionError",
    "Distinct",
    "Ewma",
    "ExpressionError",
    "First",
    "Flow",
    "FromSource",
    "Global",
    "Hopping",
    "Instant",
    "Keyed",
    "Last",
    "Max",
    "Mean",
    "Merge",
    "Min",
    "Monotonic",
    "Never",
    "OnEvent",
    "OrFinally",
    "Percentile",
    "Policy",
    "Quantile",
    "Repeatedly",
    "Rows",
    "SameWindow",
    "Schema",
    "Session",
    "Span",
    "Stage",
    "StateError",
    "StdDev",
    "StrandlineError",
    "Stream",
    "Sum",
    "TopK",
    "TranscriptError",
    "Tumbling",
    "Variance",
    "When",
    "__version__",
]

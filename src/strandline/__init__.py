"""Strandline: a stream processor in Python on Spark.

What is computed, where in event time, when in processing time, and how refinements relate, answered exactly.
Importing this starts no JVM and does not import pyspark. What it offers stands in `surface`, which is loaded when a
name is first asked for: the processes that Spark starts import parts of this package, and should wait for no others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.surface import *  # noqa: F403 - the names stand once, in its __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    surface = import_module("strandline.surface")  # `from strandline import surface` would ask here for it
    if name != "__all__" and name not in surface.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=surface)
    globals()[name] = value = getattr(surface, name)
    return value


def __dir__() -> list[str]:
    return [*import_module("strandline.surface").__all__, "__version__"]

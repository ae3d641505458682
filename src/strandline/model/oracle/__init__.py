"""The oracle: what a window stage means, one event at a time, in plain Python. Slow, and obviously right.

It reads the fields of descriptions and calls none of their methods, so that it can be wrong only by itself:

    values      one zero, one NaN, one order of values; instants as they are shown
    windows     which windows an event belongs to, and which windows merge
    triggers    when a window is shown
    sums        sums of floats that no order can change
    arithmetic  sums, means and variances
    aggregates  what is shown
    living      a window that is not forgotten
    passing     what goes into a stage in a tick, and what comes out
    stage       a tick: reject, judge, take, ask, forget
    dedupe, join, lookup, over, patterns, process, tables   stages other than windows
    late        what these say of late rows
"""

from strandline.model.oracle.dedupe import DedupeOracle
from strandline.model.oracle.join import JoinOracle
from strandline.model.oracle.lookup import LookupOracle
from strandline.model.oracle.over import OverOracle
from strandline.model.oracle.passing import Books, Outcome
from strandline.model.oracle.patterns import DetectOracle
from strandline.model.oracle.process import ProcessOracle
from strandline.model.oracle.stage import StageOracle
from strandline.model.oracle.tables import JoinTableOracle, TableOracle

__all__ = [
    "Books",
    "DedupeOracle",
    "DetectOracle",
    "JoinOracle",
    "JoinTableOracle",
    "LookupOracle",
    "Outcome",
    "OverOracle",
    "ProcessOracle",
    "StageOracle",
    "TableOracle",
]

"""What a task hears of a source reaches the driver as it was."""

from __future__ import annotations

import json

import numpy as np

from strandline.kernel.preaggregate import Books
from strandline.model.partitions import gather
from strandline.model.time import Instant
from strandline.spark.reading import Heard


def test_what_was_heard_survives_the_way_and_says_which_partition_brought_bad_and_old_rows() -> None:
    heard, stats = Heard("orders"), gather(np.array([3, 9]), Instant(10), max_future=None)
    heard.add("eu", stats, Books(rows=3, kept=2, rejected=1))
    heard.add("us", stats, Books(rows=2, kept=2), behind=1)
    heard.add("eu", stats, Books(rows=4, kept=2, rejected=2))
    text, data = heard.to_row()
    found = Heard.from_row(json.loads(text)["heard"])
    assert data == b""
    assert (found.source, found.stats, found.books) == ("orders", heard.stats, Books(rows=9, kept=6, rejected=3))
    assert found.rejected == {"eu": 3}
    assert found.behind == {"us": 1}

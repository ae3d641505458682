"""Cut what a task found for a stage into the parts of those who step its buckets."""

from __future__ import annotations

import numpy as np

from strandline.kernel.frames import kept
from strandline.kernel.judge import raw_rows_within
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import Books, Partials


def share(plan: Plan, partials: Partials, least: int, greatest: int) -> Partials:
    """The part of partials that belongs to the keys with these hashes. What was put aside is told once: by the first."""
    hashes = partials.table["hash"].to_numpy()
    mine = (hashes >= np.uint64(least)) & (hashes <= np.uint64(greatest))
    first = least == 0
    return Partials(
        table=kept(partials.table, mine),
        raw=raw_rows_within(plan, partials.raw, least, greatest),
        late=partials.late if first else partials.late.clear(),
        rejected=partials.rejected if first else partials.rejected.clear(),
        books=partials.books if first else Books(),
    )

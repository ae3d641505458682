"""Which readings are out of the ordinary? Those beyond three sigma of the same device's own last hour.

    python examples/sensors.py

Each reading comes with the mean and the standard deviation of its device over the hour before it, without itself: what is
usual for one device may be an alarm for another, and no threshold has to be chosen. With emit="watermark" a reading is judged
once, when nothing earlier can come any more, so that the alarms do not depend on the order of arrival.

Readings are made up: twenty devices, each with a level of its own, wander over 5 degrees; one reading in 250 is 12 degrees too
high. One should see all of these as alarms, but for those that come before their device is known, and no other.
"""

import tempfile

from rich.console import Console
from rich.table import Table

import strandline as sl

flow = sl.Flow("sensors")
readings = flow.source(
    "readings",
    sl.Generator(seed=3, rows=20_000, rate=1, keys=20, disorder="30s", start="2026-01-01T00:00:00Z"),
    time="at",
    watermark=sl.Bounded("30s"),
).select(
    "key as device",
    "value >= 99.6 as spiked",
    "20 + cast(substring(key, 2) as int) + value / 20 + if(value >= 99.6, 12, 0) as celsius",
    "at",
)
judged = readings.key_by("device").over(
    "hour",
    emit="watermark",
    include_current=False,
    n=sl.Count(within="1h"),
    mean=sl.Mean("celsius", within="1h"),
    sigma=sl.StdDev("celsius", within="1h"),
)
alarms, counts = sl.Memory("alarms"), sl.Memory("counts")
beyond = judged.where("n >= 30 and abs(celsius - mean) > 3 * sigma")
beyond.sink("alarms", alarms)
(
    judged.key_by()
    .window(sl.Global())
    .aggregate(
        "totals",
        readings=sl.Count(),
        too_early=sl.Count(where="n < 30"),
        spiked=sl.Count(where="spiked and n >= 30"),
    )
    .sink("counts", counts, rows="upsert")
)


def table() -> Table:
    """The first alarms, and how many there are."""
    (total,) = counts.table().to_dicts()
    found = alarms.frame().sort("at")
    right = found["spiked"].sum()
    said = f"{total['readings']:,} readings, {total['too_early']:,} too early to judge: {found.height} alarms."
    shown = Table(
        title="Beyond three sigma of the device's own hour: the first ten",
        caption=f"{said} Of {total['spiked']} that were made too high, {right} were found.",
    )
    for column in ("at", "device", "celsius", "mean", "sigma", "sigmas off"):
        shown.add_column(column, justify="left" if column in ("at", "device") else "right")
    for row in found.head(10).to_dicts():
        off = (row["celsius"] - row["mean"]) / row["sigma"]
        numbers = (f"{row[name]:.2f}" for name in ("celsius", "mean", "sigma"))
        shown.add_row(f"{row['at']:%H:%M:%S}", row["device"], *numbers, f"{off:+.1f}")
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="strandline-") as state:
        flow.run(state=state, until="end")
    Console().print(table())

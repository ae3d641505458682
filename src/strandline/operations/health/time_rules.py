"""What keeps results waiting: watermarks that stand, backlogs that grow, sinks and ticks that take too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from strandline.model.time import Instant, Span
from strandline.operations.health.finding import Finding
from strandline.operations.health.watched import (
    KNOWN,
    RECENT,
    SECOND,
    Record,
    Watched,
    longest,
    p95,
    percent,
    ran,
    seconds,
    share_of,
    span_of,
    spent,
)
from strandline.operations.partitions import Partition, partitions

HARMLESS: Final = Span.of("10s")
"""A backlog that is read in this time needs no alarm."""
BUDGET: Final = 1.1
"""What a tick may take, in batch intervals: a tenth more than one."""


def stuck_watermark(watched: Watched) -> Iterator[Finding]:
    """A watermark that stands, although the flow goes on: windows do not close, and state is not forgotten."""
    for source in watched.sources():
        reached = watched.newest["watermarks"].get(source)
        if reached is None or reached >= Instant.END_OF_TIME:
            continue
        stood = _stood(watched, source)
        if ran(stood) >= _patience(watched, source, len(stood)):
            yield from _held(watched, source, stood)


def _stood(watched: Watched, source: str) -> Sequence[Record]:
    """The last ticks in which a watermark moved less than a tenth of the time; a restart does not let it begin anew."""
    records, newest = watched.records, watched.newest
    first, lasted = len(records) - 1, 0
    while first:
        before, after = records[first - 1], records[first]
        lasted += after["now"] - before["now"] if before["run"] == after["run"] else 0
        if newest["watermarks"][source] - before["watermarks"].get(source, 0) > lasted / 10:
            break
        first -= 1
    return records[first:]


def _patience(watched: Watched, source: str, stood: int) -> Span:
    """How long a watermark may stand: twice as long as it does from time to time."""
    before = watched.records[: len(watched.records) - stood]
    normal = longest(before, lambda one, two: one["watermarks"].get(source) == two["watermarks"].get(source))
    return Span(max(RECENT, 3 * watched.interval, 2 * normal))


def _held(watched: Watched, source: str, stood: Sequence[Record]) -> Iterator[Finding]:
    now = watched.together(stood[len(stood) // 2 :])  # in the first half it may still have been otherwise
    found = [each for each in partitions(now) if each.source == source]
    holding = [each for each in found if each.holds]
    lasted = seconds(span_of(stood))
    if not any(each.rows or each.backlog for each in found):
        yield from _silent_source(watched, source, len(stood), lasted)
    elif holding and not (_is_muted(holding[0]) and watched.is_catching_up(source)):
        worst = holding[0]
        cause, fix = _why(worst)
        yield Finding(
            rule="stuck_watermark", severity="critical", about=f"partition {source}/{worst.name}",
            what=f"The watermark of {source} has stood for {lasted}; its partition {worst.name} holds it back ({worst.why or 'no later times'}).",
            cause=cause, fix=fix,
        )  # fmt: skip


def _is_muted(partition: Partition) -> bool:
    """While a source catches up, one that has a backlog is not to blame; one that is silent is."""
    return partition.why != "no data"


def _silent_source(watched: Watched, source: str, stood: int, lasted: str) -> Iterator[Finding]:
    """Nothing comes at all: amiss only where it always came."""
    before = watched.records[: len(watched.records) - stood]
    always = longest(before, lambda _, later: not any(later["rows"].get(source, {}).values()))
    known = span_of(before)
    if known >= KNOWN and always < known / 10:
        yield Finding(
            rule="stuck_watermark", severity="warning", about=f"source {source}",
            what=f"The source {source} has brought nothing for {lasted}, so its watermark stands (no data).",
            cause=f"Nobody writes to it any more: in the {seconds(known)} before, it was never silent for more than {seconds(always)}.",
            fix="See whether its producers run, and whether they still write to the same place.",
        )  # fmt: skip


def _why(held: Partition) -> tuple[str, str]:
    """The likely cause, and the fix."""
    if held.why == "no data":
        return (
            "The partition is caught up and silent, and is waited for, since it is not idle.",
            "See whether its producer runs; give the source's watermark idle_after='1m', or a shorter one, so that a silent partition is not waited for.",
        )
    if held.why == "old events":
        return (
            f"{percent(share_of(held.behind, held.rows))} of what it brought lies behind the watermark: it is flooded with old events.",
            "See who sends old events there (a replay, a device that was off); let them go to a source of their own, or raise the lateness if they should count.",
        )
    if held.why == "slow" and not held.rows:
        return (
            f"It has {held.backlog:,} more to read, and nothing of it was read.",
            "See whether the server that holds this partition answers, and what Spark's log says of its reading.",
        )
    if held.why == "slow":
        return (
            f"It is behind the others: {held.backlog:,} are left to read.",
            "See whether its keys are spread evenly over partitions; give the flow more cores, or raise max_rows_per_tick.",
        )
    return (
        "Its events bring no later times.",
        "See what the clock of its producer says, and what the source's watermark policy needs to move.",
    )


def growing_backlog(watched: Watched) -> Iterator[Finding]:
    """More comes than is read: the greatest backlog of a partition grows, and would take long to read."""
    ticks = [record for record in watched.recent if record["run"] == watched.newest["run"]]
    if watched.age < RECENT or len(ticks) < 3:
        return
    for source in watched.sources():
        left = [watched.backlog(source, record) for record in ticks]
        third = max(1, len(left) // 3)
        grows = min(left[-third:]) > max(left[:third]) and left[-1] >= 1.2 * left[0]
        lasting = max(HARMLESS, 3 * watched.interval)
        fullest, takes = _to_read(ticks, source) if grows and not watched.is_catching_up(source) else ("", 0)
        if takes > lasting:
            stands = takes == float("inf")
            step, cause, fix = _not_read(f"{source}/{fullest}") if stands else _bottleneck(watched, ticks)
            yield Finding(
                rule="growing_backlog", severity="critical", about=f"source {source}",
                what=f"The backlog of {source} grows: {left[-1]:,} wait in its fullest partition, {left[0]:,} did {seconds(span_of(ticks))} ago; the bottleneck is {step}.",
                cause=cause + _more_comes(watched, source, ticks), fix=fix,
            )  # fmt: skip


def _to_read(ticks: Sequence[Record], source: str) -> tuple[str, float]:
    """The fullest partition, and how long it would be read at the speed of these ticks."""
    first, last = (record["partitions"][source] for record in (ticks[0], ticks[-1]))
    name = max(last, key=lambda each: last[each]["end"] - last[each]["position"])
    left = last[name]["end"] - last[name]["position"]
    read = last[name]["position"] - first.get(name, last[name])["position"]
    return name, left * span_of(ticks) / read if read else float("inf")


def _not_read(partition: str) -> tuple[str, str, str]:
    return (
        f"partition {partition}", "Nothing of it is read, while others are." ,
        "See whether the server that holds this partition answers, and what Spark's log says of its reading.",
    )  # fmt: skip


def _arrived(records: Sequence[Record], source: str) -> float:
    """How much came in a second."""
    if len(records) < 2:
        return 0.0
    ends = [sum(told["end"] for told in record["partitions"].get(source, {}).values()) for record in records]
    return share_of((ends[-1] - ends[0]) * SECOND, span_of(records))


def _more_comes(watched: Watched, source: str, ticks: Sequence[Record]) -> str:
    before, now = _arrived(watched.norm, source), _arrived(ticks, source)
    return f" {now:,.0f} come in a second; {before:,.0f} did before." if before and now > 1.3 * before else ""


def _bottleneck(watched: Watched, ticks: Sequence[Record]) -> tuple[str, str, str]:
    """What takes most of the time: its name, the cause, the fix."""
    busy = {step: spent(ticks, step) for step in ("read", "step", "waited")}
    total = spent(ticks, "make", "commit")
    if total < spent(ticks, "idle"):
        return (
            "the limit", "Most of the time nothing is done: ticks may not take more than they do.",
            "Raise max_rows_per_tick or max_bytes_per_tick, or leave them out; or make the batch interval shorter.",
        )  # fmt: skip
    step = max(busy, key=lambda each: busy[each])
    told = f"{percent(share_of(busy[step], total))} of the time of ticks"
    if step == "waited":
        sink = _slowest(watched, ticks)
        return f"the sink {sink}", f"Ticks wait {told} for the sink {sink}.", _mend_sink(sink)
    if step == "read":
        return (
            "reading", f"Reading takes {told}.",
            "Give the source more partitions and the flow more cores; see whether transforms or filters cost much.",
        )  # fmt: skip
    return (
        "stepping the stages", f"Stepping takes {told}.",
        "Give the flow more cores; see whether a key is hot, a lookup is slow, or state has grown.",
    )  # fmt: skip


def slow_sink(watched: Watched) -> Iterator[Finding]:
    """Ticks wait for a sink, a good part of the time."""
    if watched.some_catch_up:
        return
    ticks = watched.recent
    share, before = _waiting(ticks), _waiting(watched.norm)
    if share >= 0.5 or (share >= 0.3 and share > 2 * before):
        sink = _slowest(watched, ticks)
        took = p95(record["sinks"].get(sink, {}).get("took", 0) for record in ticks)
        yield Finding(
            rule="slow_sink", severity="critical", about=f"sink {sink}",
            what=f"The sink {sink} is slow: ticks wait {percent(share)} of the time for sinks to have the tick before.",
            cause=f"It takes {Span(int(took) // 1000 * 1000).text} (p95) to publish a tick; before, ticks waited {percent(before)} of the time.",
            fix=_mend_sink(sink),
        )  # fmt: skip


def _waiting(ticks: Sequence[Record]) -> float:
    return share_of(spent(ticks, "waited"), spent(ticks, "idle", "make", "commit"))


def _slowest(watched: Watched, ticks: Sequence[Record]) -> str:
    """The sink that took longest; of several that do not say, the one that is furthest behind."""

    def burden(sink: str) -> tuple[int, int]:
        told: list[dict[str, Any]] = [record["sinks"].get(sink, {}) for record in ticks]
        return sum(each.get("took", 0) for each in told), sum(each.get("pending", 0) for each in told)

    return max(sorted(watched.newest["sinks"]), key=burden, default="(none)")


def _mend_sink(sink: str) -> str:
    return f"See how the target of {sink} does (its load, locks, network). A max_lag lets it fall behind for a while; fewer panes (a longer early trigger) give it less to do."


def slow_ticks(watched: Watched) -> Iterator[Finding]:
    """Ticks take longer than the batch interval, waiting for sinks not counted: all results come later."""
    warm, last = watched.run[0]["now"] + RECENT, watched.newest["now"] - 2 * max(RECENT, 5 * watched.interval)
    # A tick that reads up a backlog takes as much as it may, and so as long.
    light = (later for earlier, later in pairwise(watched.run) if earlier["caught_up"] and later["caught_up"])
    ticks = [record for record in light if record["now"] > max(warm, last)]
    if not watched.interval or len(ticks) < 5 or watched.some_catch_up:
        return
    took = p95(spent([record], "make", "commit") - spent([record], "waited") for record in ticks)
    if took > BUDGET * watched.interval:
        slowest = max(("read", "step", "commit"), key=lambda step: spent(ticks, step))
        yield Finding(
            rule="slow_ticks", severity="warning", about="flow",
            what=f"Ticks take {Span(int(took) // 1000 * 1000).text} (p95), longer than the batch interval of {watched.interval.text}.",
            cause=f"Most of it is '{slowest}': {percent(share_of(spent(ticks, slowest), spent(ticks, 'make', 'commit')))}.",
            fix="Give the flow more cores, or a longer batch interval; if 'commit' takes long, the place of the state is slow.",
        )  # fmt: skip


def no_ticks(watched: Watched) -> Iterator[Finding]:
    """No tick has come for long, and nobody said that the run is over."""
    if not watched.is_silent:
        return
    waits = watched.committed is not None and watched.committed > watched.newest["tick"]
    sinks = ", ".join(sorted(watched.newest["sinks"]))
    what = f"The last tick, {watched.newest['tick']}, was {seconds(watched.silence)} ago, and the run has not said that it is over."
    if not watched.has_ticked:
        what = f"The run began {seconds(watched.silence)} ago, and has made no tick."
    yield Finding(
        rule="no_ticks", severity="critical", about="flow", what=what,
        cause=(
            f"Tick {watched.committed} is committed and not delivered: a sink ({sinks}) does not answer, or the process is gone."
            if waits
            else "The process is gone (killed, out of memory, the machine is off), or it hangs while it makes a tick."
        ),
        fix="See whether its process runs, and what it and Spark's log said last; then start it again: it goes on where it was.",
    )  # fmt: skip

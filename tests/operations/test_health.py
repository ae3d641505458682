"""Ten things that go wrong are named within a minute, with their cause; a flow that does what it always did is not."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from strandline.model.time import Instant
from strandline.operations.health.finding import Finding
from strandline.operations.health.judging import RULES, judge
from strandline.operations.health.watched import Watched, no_tick
from strandline.store.runs import RunNote
from tests.operations.journals import NOON, SECOND, Happens, World, ended, journal, looks

NORMAL = 240  # seconds before something happens


def stall(world: World) -> None:
    world.partitions["2"].rate = 0


def stand(world: World) -> None:
    world.partitions["2"].readable = False


def flood(world: World) -> None:
    world.partitions["1"].old, world.partitions["1"].rate = 1, 300


def slow_down(world: World) -> None:
    world.publish, world.waited = 2_000_000, 1_700_000
    world.most = 450


def overload(world: World) -> None:
    world.per_row, world.most = 2_500, 200


def heat(world: World) -> None:
    world.hottest = 0.6


def bring_late(world: World) -> None:
    world.partitions["0"].old = 0.2


def poison(world: World) -> None:
    world.rejected = 0.1


def never_forget(world: World) -> None:
    world.new_known = 0.3


def explode(world: World) -> None:
    world.random_keys = 0.9


@dataclass(frozen=True)
class Incident:
    """What happens, and what health must say of it: the rules that find something, what it is about, a word of the cause."""

    happens: Happens
    rules: frozenset[str]
    about: str
    cause: str


INCIDENTS = {
    "stalled partition": Incident(stall, frozenset({"stuck_watermark"}), "partition orders/2", "silent"),
    "standing partition": Incident(stand, frozenset({"stuck_watermark", "growing_backlog"}), "partition orders/2", "nothing of it was read"),
    "flood of old events": Incident(flood, frozenset({"stuck_watermark", "late_rows"}), "partition orders/1", "old events"),
    "slow sink": Incident(slow_down, frozenset({"slow_sink", "growing_backlog"}), "sink table", "takes 2s (p95) to publish"),
    "overload": Incident(overload, frozenset({"growing_backlog"}), "source orders", "Reading takes"),
    "growth without TTL": Incident(never_forget, frozenset({"growing_state"}), "stage known", "keeps every key for ever"),
    "hot key": Incident(heat, frozenset({"hot_key"}), "stage totals", "One user"),
    "late burst": Incident(bring_late, frozenset({"late_rows"}), "stage totals", "partition orders/0"),
    "poison burst": Incident(poison, frozenset({"rejected_rows"}), "partition orders/", "Poison"),
    "key explosion": Incident(explode, frozenset({"key_explosion"}), "stage totals", "key"),
}  # fmt: skip


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_named_with_its_cause_within_a_minute_and_nothing_else_is(name: str) -> None:
    incident = INCIDENTS[name]
    told = list(looks(journal(NORMAL + 60, incident.happens, at=NORMAL), since=NORMAL - 22))
    before = [finding for after, found in told if after < 20 * SECOND for finding in found]
    since = [finding for after, found in told if after >= 20 * SECOND for finding in found]
    assert before == []
    assert {finding.rule for finding in since} == incident.rules
    assert any(each.about.startswith(incident.about) and incident.cause in each.cause for each in since), since[-1]
    assert all(finding.unhealthy for finding in since)


def test_the_minute_begins_when_the_incident_does() -> None:
    last = [found for _, found in looks(journal(NORMAL + 5, stall, at=NORMAL), since=NORMAL)]
    assert last == [[]]


@pytest.mark.parametrize("late", [0, 0.0009, 0.02])
@pytest.mark.parametrize("endless", [200, 20_000])
def test_ten_clean_minutes_are_silent(late: float, endless: int) -> None:
    world = World(Random(endless), late=late, endless=endless)
    # So many late rows are told of in the beginning, until they are known to be normal.
    records, known = journal(11 * 60, world=world), 150 if late > 0.01 else 0
    told = [found for _, found in looks(records, every=7 if known else 6, since=known)]
    assert len(told) > 70
    assert [finding for found in told for finding in found] == []


def test_catching_up_after_an_outage_is_silent_although_all_lags() -> None:
    world = World(Random(1))
    records = journal(NORMAL, world=world)
    world.run, world.restarts = "second", 1
    world.now += 600 * SECOND  # ten minutes in which the flow was down
    for partition in world.partitions.values():
        partition.end += 600 * 100
    records += journal(300, world=world)  # ticks are as great as they may be, and take two seconds
    lags = [max(told["lag"] for told in each["partitions"]["orders"].values()) for each in records]
    assert max(lags) > 590 * SECOND
    assert records[-1]["caught_up"]
    assert [found for _, found in looks(records, since=NORMAL + 600) if found] == []


def test_a_first_start_with_a_backlog_is_silent() -> None:
    world = World(Random(1))
    for partition in world.partitions.values():
        partition.end = 100 * 600
    records = journal(300, world=world)
    assert max(record["took"]["make"] for record in records) > SECOND
    assert [found for _, found in looks(records) if found] == []


def names(found: list[Finding]) -> list[str]:
    return [finding.rule for finding in found]


def test_runs_that_fail_one_after_the_other_are_a_loop_whose_failure_is_told() -> None:
    records = journal(120)
    at = records[-1]["now"] + 20 * SECOND
    runs = [
        ended(number, began=at - (30 - 8 * number) * SECOND, failure="OSError: the shop is closed")
        for number in range(4)
    ]
    [found] = [
        each for each in judge(Watched(records=records, at=Instant(at), runs=runs)) if each.rule == "restart_loop"
    ]
    assert found.what.startswith("4 runs failed")
    assert "the shop is closed" in found.cause


def test_runs_that_were_killed_one_after_the_other_are_a_loop_too() -> None:
    records = journal(60)
    at = records[-1]["now"]
    runs = [RunNote(run=f"run {number}", began=Instant(at - (40 - 10 * number) * SECOND)) for number in range(4)]
    [found] = judge(Watched(records=records, at=Instant(at), runs=runs))
    assert (found.rule, "killed" in found.cause) == ("restart_loop", True)


def test_a_job_that_runs_every_minute_until_it_has_caught_up_is_no_loop() -> None:
    records = journal(60)
    at = records[-1]["now"]
    runs = [ended(number, began=at - (540 - 60 * number) * SECOND) for number in range(10)]
    assert names(judge(Watched(records=records, at=Instant(at + 57 * SECOND), runs=runs))) == ["ended"]


def test_a_loop_that_was_mended_is_no_loop_any_more() -> None:
    records = journal(400)
    at = records[-1]["now"]
    runs = [ended(number, began=at - (380 - 8 * number) * SECOND, failure="no") for number in range(3)]
    mended = RunNote(run="good", began=Instant(at - 350 * SECOND))
    assert names(judge(Watched(records=records, at=Instant(at), runs=[*runs, mended]))) == []


def test_a_disk_that_is_nearly_full_is_told() -> None:
    records = journal(60)
    [found] = judge(Watched(records=records, at=Instant(records[-1]["now"]), free=200_000_000))
    assert (found.rule, "200 MB left" in found.what) == ("full_disk", True)
    assert judge(Watched(records=records, at=Instant(records[-1]["now"]), free=2 << 30)) == []


def test_a_process_that_is_gone_is_told_within_a_minute() -> None:
    records = journal(60)
    begun = [RunNote(run="first", began=Instant(NOON))]
    assert judge(Watched(records=records, at=Instant(records[-1]["now"] + 25 * SECOND), runs=begun)) == []
    [found] = judge(Watched(records=records, at=Instant(records[-1]["now"] + 40 * SECOND), runs=begun))
    assert (found.rule, found.severity, "The process is gone" in found.cause) == ("no_ticks", "critical", True)


def test_a_sink_that_does_not_answer_is_told_of_a_tick_that_is_committed_and_not_delivered() -> None:
    records = journal(60)
    [found] = judge(
        Watched(records=records, at=Instant(records[-1]["now"] + 40 * SECOND), committed=records[-1]["tick"] + 1)
    )
    assert (found.rule, "a sink (table) does not answer" in found.cause) == ("no_ticks", True)


def test_a_run_that_has_just_begun_is_given_time_for_its_first_tick() -> None:
    records = journal(60)
    later = records[-1]["now"] + 3_600 * SECOND
    begun = [RunNote(run="second", began=Instant(later - 100 * SECOND))]
    assert judge(Watched(records=records, at=Instant(later), runs=begun)) == []


def test_a_run_that_failed_is_told_with_its_failure_and_one_that_was_stopped_is_healthy() -> None:
    records = journal(60)
    at = records[-1]["now"] + 300 * SECOND
    [failed] = judge(
        Watched(records=records, at=Instant(at), runs=[ended(1, began=NOON, lasted=70, failure="no such table")])
    )
    assert (failed.rule, failed.cause) == ("failed", "no such table")
    [over] = judge(Watched(records=records, at=Instant(at), runs=[ended(1, began=NOON, lasted=70)]))
    assert (over.rule, over.unhealthy) == ("ended", False)


def test_a_second_run_that_was_turned_away_does_not_end_the_first() -> None:
    records = journal(60)
    runs = [
        RunNote(run="first", began=Instant(NOON)),
        ended(2, began=NOON + 30 * SECOND, failure="Another run owns it."),
    ]
    assert judge(Watched(records=records, at=Instant(records[-1]["now"]), runs=runs)) == []


def test_a_flow_that_never_made_a_tick_is_judged_by_its_runs() -> None:
    blank, later = no_tick(Instant(NOON)), Instant(NOON + 130 * SECOND)
    [silent] = judge(Watched(records=[blank], at=later, runs=[RunNote(run="r", began=Instant(NOON))]))
    assert (silent.rule, "has made no tick" in silent.what) == ("no_ticks", True)
    [failed] = judge(Watched(records=[blank], at=later, runs=[ended(1, began=NOON, failure="no such table")]))
    assert (failed.rule, failed.cause) == ("failed", "no such table")


def test_a_flow_that_is_finished_says_so_however_long_ago_that_was() -> None:
    records = journal(30)
    records[-1]["finished"] = True
    [found] = judge(Watched(records=records, at=Instant(records[-1]["now"] + 86_400 * SECOND)))
    assert (found.rule, found.unhealthy) == ("ended", False)


def test_a_source_that_falls_silent_altogether_is_told_where_it_never_was() -> None:
    def silence(world: World) -> None:
        for partition in world.partitions.values():
            partition.rate = 0

    told = [found for _, found in looks(journal(NORMAL + 60, silence, at=NORMAL)) if found]
    assert {each.about for found in told for each in found} == {"source orders"}
    files = World(Random(1))

    def now_and_then(world: World) -> None:  # a file a minute
        for partition in world.partitions.values():
            partition.rate = 100 if world.tick % 60 < 5 else 0

    assert [found for _, found in looks(journal(600, now_and_then, world=files)) if found] == []


def test_a_partition_that_is_idle_holds_nothing_and_is_no_alarm() -> None:
    def rest(world: World) -> None:
        world.partitions["2"].rate, world.partitions["2"].idle = 0, True

    assert [found for _, found in looks(journal(NORMAL + 120, rest, at=NORMAL)) if found] == []


def test_ticks_that_take_longer_than_their_interval_are_told_with_the_step_that_takes_most() -> None:
    def drag(world: World) -> None:
        world.work = 1_300_000

    told = [finding for _, found in looks(journal(NORMAL + 60, drag, at=NORMAL)) for finding in found]
    assert {finding.rule for finding in told} == {"slow_ticks"}
    assert "'read': 5" in told[-1].cause


def test_a_journal_of_one_tick_is_judged_too() -> None:
    [record] = journal(1)
    assert judge(Watched(records=[record], at=Instant(record["now"]))) == []


def test_a_source_whose_partitions_nobody_knows_is_judged_by_what_is_known() -> None:
    records = journal(300)
    for record in records:
        record["partitions"]["orders"], record["backlog"]["orders"] = {}, {}
        del record["bounds"], record["endless"]
    assert judge(Watched(records=records, at=Instant(records[-1]["now"]))) == []


def test_every_rule_is_named_once_and_says_what_it_is_about() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.ask.__doc__ for rule in RULES)


def test_where_there_are_two_keys_none_of_them_is_hot() -> None:
    records = journal(NORMAL + 60, heat, at=NORMAL)
    for record in records:
        rows = record["books"]["totals"]["rows"]
        for_each = [("ann", rows * 6 // 10), ("bob", rows - rows * 6 // 10)] if rows else []
        record["hottest"]["totals"] = [{"key": key, "rows": n, "share": round(n / rows, 4)} for key, n in for_each]
    assert [found for _, found in looks(records, since=NORMAL) if found] == []


def test_a_watermark_that_stands_is_found_also_behind_a_restart() -> None:
    world = World(Random(1))
    before = [*journal(NORMAL, world=world), *journal(60, stall, world=world)]
    world.run, world.restarts, world.now = "second", 1, world.now + 30 * SECOND
    told = [found for _, found in looks([*before, *journal(40, world=world)], since=NORMAL + 55)]
    assert len(told) > 5
    assert all([each.rule for each in found] == ["stuck_watermark"] for found in told)


def test_a_pause_is_no_time_in_which_a_watermark_stood() -> None:
    world = World(Random(1))
    before = journal(NORMAL, world=world)
    world.run, world.restarts, world.now = "second", 1, world.now + 600 * SECOND
    assert [found for _, found in looks([*before, *journal(40, world=world)], since=NORMAL) if found] == []


def test_keys_that_explode_are_found_also_where_a_flood_had_filled_the_state_before() -> None:
    def explode_mildly(world: World) -> None:
        world.random_keys = 0.4

    world = World(Random(1))
    records = [*journal(NORMAL, world=world), *journal(240, flood, world=world)]
    world.partitions["1"].old, world.partitions["1"].rate = 0, 100
    records += [*journal(150, world=world), *journal(60, explode_mildly, world=world)]
    rows = [record["state"]["totals"]["rows"] for record in records]
    assert 2.5 * max(rows[:NORMAL]) < rows[-1] < 2.5 * max(rows[:-60]), "it is much, and has been much before"
    assert [each.rule for each in list(looks(records))[-1][1]] == ["key_explosion"]

"""How the partitions of a source are joined: the slow, the quiet and the new."""

from __future__ import annotations

from strandline.model.time import Instant, Span
from strandline.model.watermarks import Bounded
from tests.model.one_source import Source, at

# ---- partitions and idleness ----


def test_the_source_follows_the_least_of_its_partitions():
    assert Source(Bounded("0s")).tick(p=["50s"], q=["7s"]) == at("7s")


def test_a_partition_that_never_spoke_holds_the_source_until_it_is_idle():
    source = Source(Bounded("0s", idle_after="1m"))
    assert source.tick(p=["5s"], q=[]) == Instant.BEFORE_ALL_TIME
    assert source.tick("59s", p=["6s"]) == Instant.BEFORE_ALL_TIME
    assert source.tick("1s", p=["7s"]) == at("7s")


def test_without_idle_after_a_quiet_partition_holds_for_ever():
    source = Source(Bounded("0s"))
    source.tick(p=["5s"], q=["1s"])
    assert source.tick("1d", p=["50s"]) == at("1s")


def test_a_backlog_is_never_idle():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=source.rows("1s", position=3, end=9))
    assert source.tick("1h", p=["50s"], q=source.rows(position=3, end=9)) == at("1s")
    assert source.tick("1h", p=["50s"]) == at("1s"), "nor is one of which nothing is heard"


def test_quiet_is_counted_from_when_the_backlog_was_read():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=source.rows("1s", position=3, end=9))
    source.tick("1h", p=["50s"], q=source.rows(position=3, end=9))
    assert source.tick("59s", p=["51s"], q=source.rows(position=9, end=9)) == at("1s")
    assert source.tick("1s", p=["52s"], q=source.rows(position=9, end=9)) == at("52s")


def test_quiet_is_counted_in_running_time_and_not_in_processing_time():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    source.now = Instant(source.now + Span.of("3h"))  # a sink was blocked: the clock went on, the run did not
    assert source.tick(p=["6s"]) == at("1s")


def test_the_count_of_quiet_restarts_with_each_run():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    source.tick("50s", p=["6s"])
    source.restart()
    assert source.tick("30s", p=["7s"]) == at("1s")
    assert source.tick("59s", p=["8s"]) == at("1s")
    assert source.tick("1s", p=["9s"]) == at("9s")


def test_a_partition_that_brings_only_rejected_events_becomes_idle():
    source = Source(Bounded("0s", idle_after="1m", max_future="1m"))
    source.tick(p=["5s"], q=["2d"])
    assert source.tick("1m", p=["6s"], q=["3d"]) == at("6s")


def test_when_all_are_idle_the_watermark_holds():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["50s"])
    assert source.tick("1h") == at("5s")
    assert all(p.idle for p in source.state.partitions.values())


def test_when_all_are_idle_the_watermark_may_go_to_the_greatest_of_theirs():
    source = Source(Bounded("10s", idle_after="1m", advance_when_idle=True))
    source.tick(p=["15s"], q=["50s"])
    assert source.tick("59s") == at("5s")
    assert source.tick("1s") == at("40s")


def test_a_new_partition_holds_the_source_and_does_not_move_it_back():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"])
    assert source.tick("2h", p=["50s"], q=[]) == at("5s")
    assert source.tick("59s", p=["51s"]) == at("5s"), "its quiet is counted from when it appeared"
    assert source.tick("1s", p=["52s"]) == at("52s")


def test_a_partition_back_from_idle_with_old_events_holds_but_does_not_move_back():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    assert source.tick("1m", p=["30s"]) == at("30s")
    assert source.tick(p=["40s"], q=["2s"]) == at("30s")
    assert not source.state.partitions["q"].idle
    assert source.tick(p=["41s"], q=["35s"]) == at("35s")

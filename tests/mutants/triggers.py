"""The other decisions about triggers: counts, timers, on-time and late panes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl
import pytest

from strandline.kernel import ask, fire, plan, triggers
from strandline.model import checks
from strandline.model.oracle import stage as oracle_stage
from strandline.model.oracle import triggers as oracle_triggers
from strandline.model.oracle.stage import StageOracle
from strandline.model.triggers import AfterAll, AfterAny, AfterCount, AfterEach, AfterWatermark, Trigger

Patch: TypeAlias = pytest.MonkeyPatch


def late_events_need_a_late_trigger(patch: Patch) -> None:
    """Lateness without a late trigger shows nothing late."""
    patch.setattr(plan, "with_late_panes", lambda trigger, lateness: trigger)
    patch.setattr(oracle_stage, "plant", lambda trigger, lateness: oracle_triggers._plant(trigger))


def losing_events_is_allowed(patch: Patch) -> None:
    """Nobody asks whether a trigger loses events."""
    patch.setattr(checks, "RULES", tuple(rule for rule in checks.RULES if rule is not checks._loss))


def the_on_time_pane_needs_news(patch: Patch) -> None:
    """What an early pane showed is not shown again at the end."""
    shown = fire._shown
    patch.setattr(
        fire, "_shown",
        lambda p, table, fired, *rest: shown(p, table, fired & (table["new"].to_numpy() > 0), *rest),
    )  # fmt: skip
    show_one = StageOracle._show
    patch.setattr(
        StageOracle, "_show",
        lambda self, window, *rest, **options: show_one(self, window, *rest, **options) if window.new else None,
    )  # fmt: skip


def the_on_time_pane_always_comes(patch: Patch) -> None:
    """Discarding shows an empty on-time pane without being asked to."""
    asked = ask.fire
    patch.setattr(
        ask, "fire",
        lambda p, *rest, **options: asked(replace(p, stage=replace(p.stage, on_time="always")), *rest, **options),
    )  # fmt: skip
    put = StageOracle._ask

    def oracle(self: StageOracle, *rest: Any) -> None:
        self.stage = replace(self.stage, on_time="always")
        put(self, *rest)

    patch.setattr(StageOracle, "_ask", oracle)


def _counting(trigger: Trigger, *, exact: bool) -> Trigger:
    if isinstance(trigger, AfterCount):
        return AfterCount(trigger.count, exact=exact)
    if isinstance(trigger, AfterWatermark):
        early, late = (None if part is None else _counting(part, exact=exact) for part in (trigger.early, trigger.late))
        return AfterWatermark(early=early, late=late)
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        return type(trigger)(*(_counting(part, exact=exact) for part in trigger.triggers))
    return trigger


def _let_counts_be(patch: Patch, *, exact: bool) -> None:
    compiled, planted = plan.compile_trigger, oracle_stage.plant
    patch.setattr(plan, "compile_trigger", lambda trigger: compiled(_counting(trigger, exact=exact)))
    patch.setattr(oracle_stage, "plant", lambda trigger, lateness: planted(_counting(trigger, exact=exact), lateness))


def every_event_is_counted_by_itself(patch: Patch) -> None:
    """AfterCount means what exact=True means."""
    _let_counts_be(patch, exact=True)


def exact_counts_are_judged_once_a_tick(patch: Patch) -> None:
    """exact=True means nothing."""
    _let_counts_be(patch, exact=False)


def processing_time_counts_from_the_first_event_ever(patch: Patch) -> None:
    """The timer goes on with the pane instead of starting anew."""

    def but_firsts(change: Any) -> Any:
        def kernel(part: triggers.Part, book: triggers.Book, mask: Any) -> None:
            firsts = {name: book[name] for name in book if name.endswith(".first")}
            change(part, book, mask)
            book |= firsts

        return kernel

    def but_firsts_of_one(change: Any) -> Any:
        def oracle(state: oracle_triggers.State) -> None:
            firsts = [part.first for part in oracle_triggers.tree(state)]
            change(state)
            for part, first in zip(oracle_triggers.tree(state), firsts, strict=True):
                part.first = first

        return oracle

    for name in ("start", "_spend"):
        patch.setattr(triggers, name, but_firsts(getattr(triggers, name)))
    for name in ("start", "spend"):
        patch.setattr(oracle_triggers, name, but_firsts_of_one(getattr(oracle_triggers, name)))


def panes_coalesce_across_timings(patch: Patch) -> None:
    """Of the panes of one window in one tick only the last is shown, early or not."""
    coalesce = StageOracle._coalesce

    def across(self: Any, window: Any, tick: Any, timing: str) -> None:
        for other in ("early", "on_time", "late"):
            coalesce(self, window, tick, other)

    patch.setattr(StageOracle, "_coalesce", across)
    coalesced = ask._coalesced

    def kernel(compiled: Any, table: pl.DataFrame, final: pl.DataFrame, shown: list[pl.DataFrame]) -> Any:
        shown = [panes.with_columns(pane_timing=pl.lit("on_time")) for panes in shown]
        return coalesced(compiled, table, final, shown)

    patch.setattr(ask, "_coalesced", kernel)

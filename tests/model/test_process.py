"""What a process describes in its body."""

from __future__ import annotations

from typing import Any

import strandline as sl
from strandline.model.process import fields_of, kept_of, timers_of


def test_a_process_that_travels_by_value_keeps_the_same_columns_in_the_same_order() -> None:
    class Velocity(sl.Process):
        times = sl.List("timestamp")
        silent = sl.Timer("5m")
        amounts = sl.List("double")

        def on_event(self, event: Any, out: Any) -> None:
            self.times.append(event["at"])

    body = {name: each for name, each in vars(Velocity).items() if not name.startswith("_")}
    there = type("Velocity", (sl.Process,), dict(sorted(body.items())))  # as cloudpickle makes it in another process
    assert [*fields_of(there)] == [*fields_of(Velocity)] == ["amounts", "silent", "times"]
    assert ([*kept_of(there)], [*timers_of(there)]) == (["amounts", "times"], ["silent"])


def test_a_derived_process_describes_anew_what_its_base_described() -> None:
    class Base(sl.Process):
        count = sl.Value("bigint", 0)

        def on_event(self, event: Any, out: Any) -> None:
            self.count += 1

    class Derived(Base):
        count = sl.Value("int", 1)
        also = sl.Value("string")

    assert fields_of(Derived) == {"also": sl.Value("string"), "count": sl.Value("int", 1)}

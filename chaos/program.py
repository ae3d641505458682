"""A flow that faults are done to, as those see it who do them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import strandline as sl
from chaos import orders
from chaos.judging import ADDED_TO, Sinks, Verdict, agreement, answer, found_answer, read_sinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Its events, how it is run, what its sinks hold, and who says that an undisturbed run is right."""

    write_events: Callable[[Path], None]
    run: Callable[..., sl.Run]
    read: Callable[[Path], Sinks]
    added_to: tuple[str, ...]  # sinks whose rows stay; those of an upserted table come and go
    judge: Callable[[Path], Verdict]  # by other means than the engine's
    module: str = ""  # what `python -m` runs in a process of its own, given a folder and perhaps a master


ORDERS: Final = Program(
    write_events=orders.write_events,
    run=orders.run,
    read=read_sinks,
    added_to=ADDED_TO,
    judge=lambda folder: agreement(found_answer(folder), answer()),
    module="chaos.orders",
)

"""The rules of health, in one table, and what they find in a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from strandline.operations.health.finding import SEVERITIES, Finding
from strandline.operations.health.row_rules import hot_key, late_rows, rejected_rows
from strandline.operations.health.run_rules import ended, failed, restart_loop
from strandline.operations.health.state_rules import full_disk, growing_state, key_explosion
from strandline.operations.health.time_rules import growing_backlog, no_ticks, slow_sink, slow_ticks, stuck_watermark
from strandline.operations.health.watched import Watched


@dataclass(frozen=True, slots=True)
class Rule:
    """A question put to a journal. One that is `live` says something only of a flow that makes ticks now."""

    ask: Callable[[Watched], Iterator[Finding]]
    live: bool = False

    @property
    def name(self) -> str:
        """What its findings are called."""
        return self.ask.__name__


RULES: Final = (
    Rule(no_ticks),
    Rule(failed),
    Rule(restart_loop),
    Rule(full_disk),
    Rule(stuck_watermark, live=True),
    Rule(slow_sink, live=True),
    Rule(growing_backlog, live=True),
    Rule(slow_ticks, live=True),
    Rule(key_explosion, live=True),
    Rule(growing_state),
    Rule(late_rows),
    Rule(rejected_rows),
    Rule(hot_key),
    Rule(ended),
)


def judge(watched: Watched) -> list[Finding]:
    """What is wrong, the gravest first. Pure: the same journal, seen at the same time, is judged the same.

    Law: a flow that is catching up, and one that does what it always did, is found healthy.
    """
    lives = not (watched.is_over or watched.is_silent)
    found = [finding for rule in RULES if lives or not rule.live for finding in rule.ask(watched)]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))

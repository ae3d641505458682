"""What is wrong with the runs: one that begins again and again, one that failed, one that is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.model.time import Span
from strandline.operations.health.finding import Finding
from strandline.operations.health.watched import NORM, Watched, seconds
from strandline.store.runs import RunNote

LOOP: Final = 3
"""So many runs that end badly within the norm's time are a loop."""


def restart_loop(watched: Watched) -> Iterator[Finding]:
    """The flow is started again and again, and fails."""
    bad = _ended_badly(watched)
    if len(bad) >= LOOP and watched.at - _last_time(bad[-1]) < NORM / 2:
        told = [run.failure for run in bad if run.failure]
        yield Finding(
            rule="restart_loop", severity="critical", about="flow",
            what=f"{len(bad)} runs failed or died in the last {NORM.text}.",
            cause=f"The last of them failed with: {told[-1]}" if told else "They died without a word: killed, or out of memory.",
            fix="Mend what it says; what is retried as it is fails as it did. Until then stop the flow: its state stays as it is.",
        )  # fmt: skip


def _ended_badly(watched: Watched) -> list[RunNote]:
    """Runs that failed, and runs behind which another one began although they had not ended."""
    runs = [run for run in watched.runs if run.began > watched.at - NORM]
    died = [run for run in runs[:-1] if run.ended is None]
    return sorted([*died, *(run for run in runs if run.failure)], key=_last_time)


def _last_time(run: RunNote) -> int:
    return int(run.began if run.ended is None else run.ended)


def failed(watched: Watched) -> Iterator[Finding]:
    """The last run failed, and nobody has started another."""
    last = watched.last_run
    if last is not None and watched.is_over and last.failure:
        yield Finding(
            rule="failed", severity="critical", about="flow",
            what=f"The run failed {_ago(watched, last)} ago.", cause=last.failure,
            fix="Mend what it says, and start the flow again: it goes on where it was. --restarts lets it try by itself.",
        )  # fmt: skip


def ended(watched: Watched) -> Iterator[Finding]:
    """The run is over, in good order: there is nothing to alarm about."""
    last = watched.last_run
    if watched.newest["finished"]:
        what, cause = (
            "The flow is finished: everything was read, and time went to its end.",
            "It was run until the end.",
        )
        fix = "Nothing is to be done. To read what comes later, run it anew in another state, or until caught_up."
    elif last is not None and watched.is_over and not last.failure:
        what, cause = (
            f"The run was stopped {_ago(watched, last)} ago; windows stay open.",
            "It was asked to end, or had read everything.",
        )
        fix = "Start it again to go on, if it should run."
    else:
        return
    yield Finding(rule="ended", severity="notice", about="flow", what=what, cause=cause, fix=fix)


def _ago(watched: Watched, run: RunNote) -> str:
    return seconds(Span(watched.at - (run.ended or watched.at)))

"""How far a sink is in a topic: the metadata of an offset that its group committed, in the transaction of the rows.

The group and the transactional id have one name, made of the flow, the sink and the topic: `strandline/<flow>/<sink>/<topic>`,
each part percent-encoded, so that a rule of access for the prefix `strandline/` covers all. No incarnation is in it: a run
of any incarnation fences all others. The offset is committed for partition 0 of the topic itself; its number means nothing.
A topic that is deleted takes the marker with it, and is told as a loss.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from strandline.errors import SinkError
from strandline.sinks.contract import ACKNOWLEDGE, Delivery, Marker, Target, judge_marker, own_marker

_VERSION: Final = 1
_LONGEST: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last transaction of a sink: a delivery, how many of its rows are published, and whether these are all.

    `marker` is None before the first delivery; `unmarked` says that rows were there already then, and nobody knows whose.
    `before` is the last whole delivery, where this one is not. `owner` is the
    publisher that committed it, one of a process. A count of rows, and no number of chunks: how large a chunk is may change
    between two runs.

    Law: Progress.read(progress.text) == progress.
    """

    owner: str
    marker: Marker | None = None
    rows: int = 0
    complete: bool = True
    before: Marker | None = None
    unmarked: bool = False

    @property
    def whole(self) -> Marker | None:
        """The last delivery that the topic shows whole."""
        return self.marker if self.complete else self.before

    @property
    def place(self) -> tuple[int, int]:
        """What only grows in one incarnation."""
        return (-1 if self.marker is None else self.marker.tick, self.rows)

    @property
    def text(self) -> str:
        """As the metadata of an offset, in ASCII."""
        said: dict[str, object] = {
            "version": _VERSION,
            "owner": self.owner,
            "rows": self.rows,
            "complete": self.complete,
        }
        said |= {"unmarked": True} if self.unmarked else {}
        said |= {name: _said(each) for name, each in (("marker", self.marker), ("before", self.before)) if each}
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def read(cls, text: str, name: str) -> Progress:
        """What `text` says; SinkError if it is something else."""
        try:
            said = json.loads(text)
            if said["version"] != _VERSION:
                raise SinkError(
                    f"The marker in the group {name!r} is of version {said['version']}; this release knows {_VERSION}.",
                    fix="Use the release that wrote it, or write to a new topic.",
                )
            return cls(
                owner=str(said["owner"]), marker=_heard(said.get("marker")), rows=int(said["rows"]),
                complete=bool(said["complete"]), before=_heard(said.get("before")),
                unmarked=bool(said.get("unmarked", False)),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"The offset of the group {name!r} has no marker of Strandline's: {error!r}.",
                fix="Another program commits offsets for this group: stop it, and write to a new topic.",
            ) from error


def _said(marker: Marker) -> list[object]:
    return [marker.incarnation, marker.tick, marker.digest]


def _heard(said: Sequence[Any] | None) -> Marker | None:
    if said is None:
        return None
    incarnation, tick, digest = said
    return Marker(incarnation=str(incarnation), tick=int(tick), digest=str(digest))


def name_of_sink(flow: str, sink: str, topic: str) -> str:
    """The group and the transactional id of a sink. One that is too long ends with a digest of all of it.

    Law: two sinks, or one in two topics, have two names.

    >>> name_of_sink("revenue", "per minute", "paid.v1")
    'strandline/revenue/per%20minute/paid.v1'
    """
    name = "/".join(("strandline", *(quote(part, safe="") for part in (flow, sink, topic))))
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: _LONGEST - 33]}~{digest}"


def rows_before(progress: Progress | None, delivery: Delivery, target: Target) -> int | None:
    """How many rows of a delivery the topic has: 0 for none, None for all; SinkError if it may not be published.

    Law: a delivery that was cut short goes on behind its last row that was committed, and nothing else follows it.
    """
    own = None if progress is None else own_marker(progress.marker, target)
    if own is None or progress is None or progress.complete or delivery.tick < own.tick:
        whole = None if own is None or progress is None else progress.whole or own
        return None if judge_marker(whole, delivery, target) == "skip" else 0
    if own.tick < delivery.tick:
        _require_nothing_half(own, progress.rows, target)
        return 0
    judge_marker(own, delivery, target)  # the same tick and the same digest, or an error
    return progress.rows


def _require_nothing_half(own: Marker, rows: int, target: Target) -> None:
    if target.acknowledged:
        return
    raise SinkError(
        f"The topic of {target} holds the first {rows:,} rows of tick {own.tick} only, and the next tick came.",
        fix=f"Run with the state that published it, which has the rest; or {ACKNOWLEDGE} if it may stay missing.",
    )


def require_no_loss(progress: Progress | None, target: Target) -> None:
    """SinkError if the topic shows less than a run that ended well wrote down: the group's offset expired, or the topic is new."""
    whole = None if progress is None else own_marker(progress.whole, target)
    last = target.last
    if last is None or last.incarnation != target.incarnation or target.acknowledged:
        return
    if whole is None or whole.tick < last.tick:
        there = "no marker" if whole is None else f"a marker at tick {whole.tick}"
        raise SinkError(
            f"The topic of {target} has {there}, but tick {last.tick} was published to it: the group's offset expired "
            "(offsets.retention.minutes), or topic or group were deleted.",
            fix=f"Look at what the topic holds. To go on with tick {last.tick + 1}, and leave the topic as it is, "
            f"{ACKNOWLEDGE}.",
        )

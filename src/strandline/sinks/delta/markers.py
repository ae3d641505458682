"""How far a sink is in a Delta table: application transactions, numbers that a commit carries beside its rows.

    strandline:<flow>:<sink>                  a number that stands for the incarnation that made the last delivery
    strandline:<flow>:<sink>:<incarnation>    its tick
    strandline:<flow>:<sink>#digest           a number that stands for the digest of its rows
    strandline#upserts                        a number that stands for the flow and sink whose upserts the table holds

They are part of the table's state and stay in its checkpoints, unlike what a commit says about itself, which ends with
old files of the log. In names, % : and # are written %25, %3A and %23. A number is the first 63 bits of a SHA-256.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from strandline.errors import SinkError
from strandline.sinks.contract import ACKNOWLEDGE, Delivery, Marker, Target

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

UPSERTS: Final = "strandline#upserts"
_FORGETS: Final = "delta.setTransactionRetentionDuration"


class TableTransactions:
    """The marker of a sink in a table."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = f"strandline:{_escaped(target.flow)}:{_escaped(target.sink)}"

    def read(self, table: DeltaTable, delivery: Delivery | None = None) -> Marker | None:
        """The last delivery that the table shows. Its digest is known by a number; that of `delivery` if it has the same."""
        whose = table.transaction_version(self.name)
        if whose is None:
            return None
        incarnation = self._named(whose)
        tick = table.transaction_version(self._of(incarnation))
        shown = table.transaction_version(f"{self.name}#digest")
        same = delivery is not None and number_of(delivery.digest) == shown
        digest = delivery.digest if same and delivery is not None else f"#{shown}"
        return Marker(incarnation=incarnation, tick=-1 if tick is None else tick, digest=digest)

    def commit(self, delivery: Delivery) -> CommitProperties:
        """What a commit carries to say that it is this delivery. It is made upon the version that was judged, or not at all."""
        from deltalake import CommitProperties, Transaction

        numbers = {
            self.name: number_of(delivery.incarnation),
            self._of(delivery.incarnation): delivery.tick,
            f"{self.name}#digest": number_of(delivery.digest),
        }
        if self.target.rows == "upsert":
            numbers[UPSERTS] = number_of(self.name)
        about = {"flow": self.target.flow, "sink": self.target.sink, "incarnation": delivery.incarnation}
        about |= {"tick": str(delivery.tick), "digest": delivery.digest}
        return CommitProperties(
            custom_metadata={f"strandline.{name}": value for name, value in about.items()},
            max_commit_retries=0,
            app_transactions=[Transaction(name, number) for name, number in numbers.items()],
        )

    def require_own_rows(self, table: DeltaTable) -> None:
        """SinkError if another sink upserts rows of this table."""
        whose = table.transaction_version(UPSERTS)
        if whose in (None, number_of(self.name)) or self.target.acknowledged:
            return
        raise SinkError(
            f"The table of {self.target} holds upserts of another sink, which would overwrite its rows, or it theirs.",
            fix=f"Name another table; or {ACKNOWLEDGE}, and this sink takes it over.",
        )

    def weaknesses(self, table: DeltaTable) -> list[str]:
        """A sentence for each setting of the table that lets it forget the marker."""
        kept = table.metadata().configuration.get(_FORGETS)
        if kept is None:
            return []
        return [f"The table has {_FORGETS}={kept}: after that long without rows it forgets how far this sink is."]

    def _of(self, incarnation: str) -> str:
        return f"{self.name}:{_escaped(incarnation)}"

    def _named(self, number: int) -> str:
        """The incarnation that a number stands for: this one, the one before a restore, or one that nobody knows here."""
        for known in (self.target.incarnation, self.target.restored_from):
            if known is not None and number_of(known) == number:
                return known
        return f"#{number}"


def number_of(text: str) -> int:
    """A number that stands for a text.

    >>> number_of("a")
    7299139317422481125
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _escaped(text: str) -> str:
    """A part of a name, which no other part can be taken for.

    >>> _escaped("a:b")
    'a%3Ab'
    """
    return text.replace("%", "%25").replace(":", "%3A").replace("#", "%23")

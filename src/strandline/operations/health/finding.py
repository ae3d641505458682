"""What health finds: what is wrong, with what, why, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Severity = Literal["critical", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "notice")
"""From the gravest on. A flow with notices alone is healthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong. `about` names what it is about: "partition orders/3", "stage totals", "sink table", "flow".

    >>> finding = Finding(rule="hot_key", severity="warning", about="stage totals", what="One key has 90 % of the rows.",
    ...     cause="A bot.", fix="Spread it.")
    >>> finding.unhealthy, finding.to_json()["about"]
    (True, 'stage totals')
    """

    rule: str
    severity: Severity
    about: str
    what: str
    cause: str
    fix: str

    @property
    def unhealthy(self) -> bool:
        """Whether somebody should look at it."""
        return self.severity != "notice"

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON."""
        return asdict(self)

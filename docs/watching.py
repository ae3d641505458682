"""The tables of monitoring.md, from the rules of health, the metrics and the alert rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import yaml

from strandline.operations.health.judging import RULES
from strandline.operations.metrics import METRICS
from strandline.operations.monitoring import shipped

PAGE: Final = Path(__file__).parent / "monitoring.md"


def monitoring_page() -> str:
    """The page with its tables as the code has them; what stands around them is written by hand."""
    text = PAGE.read_text(encoding="utf-8")
    for name, rows in (("findings", findings()), ("metrics", metrics()), ("alerts", alerts())):
        text = _filled(text, name, rows)
    return text


def findings() -> Iterator[str]:
    for rule in RULES:
        says = " ".join((rule.ask.__doc__ or "").split())
        yield f"| `{rule.name}` | {says} | {'yes' if rule.live else ''} |"


def metrics() -> Iterator[str]:
    for each in METRICS:
        yield f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.says} |"


def alerts() -> Iterator[str]:
    for group in yaml.safe_load(shipped("alerts.yaml"))["groups"]:
        for rule in group["rules"]:
            told = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", rule["annotations"]["summary"])
            told = re.sub(r"\{\{ \$value[^}]*\}\}", "*so much*", told)
            yield f"| `{rule['alert']}` | {rule['labels']['severity']} | {told} |"


def _filled(text: str, name: str, rows: Iterable[str]) -> str:
    """The text with other rows in the table between two marks."""
    pattern = re.compile(rf"(<!-- {name} -->\n\|.*\n\|[-|]*\n)(?:\|.*\n)*(<!-- /{name} -->)")
    assert len(pattern.findall(text)) == 1, f"the page has no table of {name}"
    return pattern.sub(lambda found: found[1] + "".join(f"{row}\n" for row in rows) + found[2], text)

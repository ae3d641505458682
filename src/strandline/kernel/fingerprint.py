"""What a stage's state means, as text: state is taken up only by a stage that means the same by it.

Columns alone do not tell: minutes and hours are counted in the same columns. The stage's name is left out, because the
one who keeps the state goes by it; and so is what leaves no trace in state, such as `allow_loss`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from strandline.errors import StateError
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan
from strandline.kernel.plan import Plan, once_per_plan
from strandline.model.aggregates import Aggregate, AnyAggregate, Merge, columns_of, takes_back
from strandline.model.lineage import base_of
from strandline.model.time import Span
from strandline.model.windows import CustomWindow

_AGGREGATE = "aggregate "
_SPANS = frozenset({"size", "every", "gap", "offset", "lateness", "ttl", "delay", "half_life"})
_SPAN = re.compile(rf"\b({'|'.join(sorted(_SPANS))})=(\d+)\b")


def fingerprint(plan: AnyPlan) -> dict[str, str]:
    """What a stage's state means, part by part, so that it can be said which part differs.

    Laws: equal descriptions have equal fingerprints, in every process and on every version of Python; an option that is
    left at its default is not in the text, so a later version may add options.
    """
    return _of_operator(plan) if isinstance(plan, OperatorPlan) else _of_windows(plan)


def _of_operator(plan: OperatorPlan) -> dict[str, str]:
    """The options of an operator that its state depends on, and the columns that it keeps."""
    if not plan.keeps:
        return {"operator": type(plan).__name__.removesuffix("Plan")}
    kept = ", ".join(f"{name} {dtype}" for name, dtype in plan.state_schema.items())
    said = {name: canonical(value) for name, value in plan.said().items()}
    return {
        "operator": type(plan).__name__.removesuffix("Plan"),
        **said,
        "lateness": canonical(plan.lateness),
        "columns": kept,
    }


@once_per_plan
def _of_windows(plan: Plan) -> dict[str, str]:
    stage = plan.stage
    parts = {
        "window": canonical(stage.window),
        "trigger": canonical(plan.trigger.trigger),  # as it runs
        "lateness": canonical(plan.lateness),
        "mode": stage.mode,
        "on_time": stage.on_time,
        "timestamp": stage.timestamp,
        "coalesce": canonical(stage.coalesce),
        "keys": ", ".join(f"{key} {plan.inputs[key].text}" for key in stage.keys),
        "retractions": "taken" if plan.taking_back else "none",
        "carried": ", ".join(plan.carry),
    }
    return parts | {_AGGREGATE + name: _aggregate(plan, aggregate) for name, aggregate in stage.aggregates}


def require_fitting(plan: AnyPlan, written: Mapping[str, str]) -> tuple[str, ...]:
    """Refuse state that this stage cannot take up, saying what differs; name the aggregates that were added since.

    An added aggregate starts from nothing in the windows that are open. It is refused where what was shown or taken in
    before will be taken back: it has no part in that.
    """
    mine = fingerprint(plan)
    differing = [part for part in sorted({*mine, *written}) if mine.get(part) != written.get(part)]
    added = [part for part in differing if part.startswith(_AGGREGATE) and part not in written]
    takes_back = isinstance(plan, Plan) and (plan.stage.mode == "retracting" or plan.taking_back)
    if differing != added or (added and takes_back):
        told = "; ".join(f"{part}: {_said(written, part)} there, {_said(mine, part)} here" for part in differing)
        why = " An aggregate cannot be added where rows are taken back." if differing == added else ""
        raise StateError(
            f"The state is not that of stage {plan.name!r}, or the stage was changed: {told}.{why}",
            fix="Restore it under the flow that wrote it, or start this stage afresh under a new name.",
        )
    return tuple(part.removeprefix(_AGGREGATE) for part in added)


def canonical(value: Any) -> str:
    """A description as text that does not change: spans in whole microseconds, fields by name, defaults left out.

    Classes of users go by their qualified name, without the module: a script is `__main__` when it is run and has a name
    when it is imported. Fields are told of those that are dataclasses.

    >>> from strandline.model.windows import Tumbling
    >>> canonical(Tumbling("1m"))
    'Tumbling(size=60000000)'
    """
    if value is None or isinstance(value, bool | float | str):
        return json.dumps(value)
    if isinstance(value, int):  # instants and spans too, whose own text may change
        return str(int(value))
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(canonical, value))}]"
    said = {f.name: getattr(value, f.name) for f in fields(value) if _matters(f, value)} if is_dataclass(value) else {}
    if isinstance(value, CustomWindow):
        said |= {"merging": value.merging, "longest": value.longest}
    if isinstance(value, Aggregate):
        said |= {"columns": value.columns, "result": value.result, "where": value.where, "back": takes_back(value)}
    return f"{type(value).__qualname__}({', '.join(f'{name}={canonical(v)}' for name, v in said.items())})"


def _matters(field: Field[Any], value: object) -> bool:
    return field.default is MISSING or getattr(value, field.name) != field.default


def _aggregate(plan: Plan, aggregate: AnyAggregate) -> str:
    """An aggregate with the types of what it reads; behind a merge also the one that saw the rows."""
    types = ", ".join(plan.inputs[column].text for column in columns_of(aggregate))
    origin = f" of {canonical(base_of(plan.stage, aggregate)[1])}" if isinstance(aggregate, Merge) else ""
    return f"{canonical(aggregate)}{origin} over ({types})"


def _said(parts: Mapping[str, str], part: str) -> str:
    """A part as people read it: spans with their units.

    >>> _said({"window": "Hopping(size=60000000, every=5000000)"}, "window"), _said({}, "window")
    ('Hopping(size=1m, every=5s)', 'none')
    """
    text = parts.get(part) or "none"
    if part in _SPANS and text.isdigit():
        return Span(int(text)).text
    return _SPAN.sub(lambda found: f"{found[1]}={Span(int(found[2])).text}", text)

"""A flow explained with everything that is known before it runs: what the model says, and what the kernel measures."""

from __future__ import annotations

from typing import Any

from strandline.errors import DescriptionError
from strandline.model import explain as model
from strandline.model.flow import Flow
from strandline.model.sizes import KEYS, RATE, Load
from strandline.operations.sizing import row_bytes


def explain(flow: Flow, *, rate: int = RATE, keys: int = KEYS, width: int | None = None) -> str:
    """A flow in plain sentences, in lines of this width; the size of its state for so many events a second and keys.

    >>> explain(Flow("empty"), rate=0)
    Traceback (most recent call last):
        ...
    strandline.errors.DescriptionError: 0 is no number of events a second.
      fix: Give a whole number from 1, such as 20000.
    """
    return model.explain(flow, load=load(rate, keys), measure=row_bytes, width=width)


def explained(flow: Flow, *, rate: int = RATE, keys: int = KEYS) -> dict[str, Any]:
    """The same as plain JSON."""
    found = model.sections(flow, load=load(rate, keys), measure=row_bytes)
    return {"flow": flow.name, "rate": rate, "keys": keys, "sections": [section.to_json() for section in found]}


def load(rate: int, keys: int) -> Load:
    """What sizes are told for, if it is a number."""
    for value, what in ((rate, "events a second"), (keys, "keys that are active")):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DescriptionError(
                f"{value!r} is no number of {what}.", fix="Give a whole number from 1, such as 20000."
            )
    return Load(rate=rate, keys=keys)

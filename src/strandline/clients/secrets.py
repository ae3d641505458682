"""Read secrets where they are used, and keep them out of what is told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from strandline.errors import RunError
from strandline.model.secrets import Secret

HIDDEN: Final = "***"


def reveal(secret: Secret) -> str:
    """The value, read now; RunError where it cannot be."""
    if secret.kind == "env":
        found = os.environ.get(secret.place)
        if found is None:
            raise RunError(
                f"The environment has no variable {secret.place!r}, which holds a secret.",
                fix="Set it where the flow runs; on a cluster also for the executors (spark.executorEnv.*), or use a file.",
            )
        return found
    try:
        return Path(secret.place).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RunError(
            f"The file {secret.place!r}, which holds a secret, cannot be read: {said}.",
            fix="Put it there, readable for the user that runs the flow; on a cluster on every machine.",
        ) from None


def revealed(options: Iterable[tuple[str, str | Secret]]) -> dict[str, str]:
    """Settings with the values of their secrets: for a client, and for nobody else."""
    return {name: reveal(value) if isinstance(value, Secret) else value for name, value in options}


def hide(text: str, options: Mapping[str, str] | Iterable[str]) -> str:
    """What a client said, without the values given (of a mapping: its values) of four letters or more.

    >>> hide("login of ann with hunter2 failed", ["hunter2"])
    'login of ann with *** failed'
    """
    values = options.values() if isinstance(options, Mapping) else options
    for value in sorted({value for value in values if len(value) >= 4}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text

"""What several mutants are made with."""

from __future__ import annotations

from typing import Any

import pytest


def change_node(patch: pytest.MonkeyPatch, made: Any, change: Any) -> None:
    """Let something be made of another description than it is given."""
    make = made.__init__
    patch.setattr(made, "__init__", lambda self, node, *args, **options: make(self, change(node), *args, **options))

"""Keys with very many rows: which stages may spread them over several places, and which must not."""

from __future__ import annotations

from typing import Final

from strandline.errors import DescriptionError, told
from strandline.model.nodes import AnyNode, How, JoinNode, JoinTableNode

BROADCAST: Final = 16
"""In how many places a broadcast table lies whole."""
SALTS: Final = (2, 4, 8, 16, 32, 64)


def salted(salt: object, how: How) -> int | None:
    """Over how many places a join spreads rows of a key; None where it does not. Refused is what could not be exact."""
    if salt is None:
        return None
    if not isinstance(salt, int) or isinstance(salt, bool) or salt not in SALTS:
        raise DescriptionError(
            f"salt={told(salt)} is not over how many places the rows of a key can be spread.",
            fix=f"Give one of {', '.join(map(str, SALTS))}, or leave it out.",
        )
    if how == "full":
        raise DescriptionError(
            "salt= spreads the rows of one side and copies those of the other, and how='full' shows rows of both sides "
            "without a match: a copy cannot know that the others have none.",
            fix="Leave salt= out, or write how='left' or 'right'.",
        )
    return salt


def refuse_salt(name: str, salt: object) -> None:
    """Say why a stage cannot spread the rows of a key."""
    if salt is not None:
        raise DescriptionError(
            f"salt={told(salt)} would spread the rows of a key over several places, and what the stage {name!r} remembers "
            "of a key must be in one: each place would know of a part of its rows alone.",
            fix="Leave it out. For a key with very many rows, key by one more column, or sum up first: "
            ".window(...).aggregate(...) does so where rows are read.",
        )


def spreads(node: AnyNode) -> bool:
    """Whether the rows of a key are spread over several places: within a tick they do not keep the order of arrival."""
    if isinstance(node, JoinNode):
        return node.salt is not None
    return isinstance(node, JoinTableNode) and node.broadcast

"""Parses the tag expression of a consumer. Tag expressions have the same form as in RocketMQ:

    "*"                  all messages
    "paid"               messages with the tag `paid`
    "paid || refunded"   messages with one of these tags

The function `wanted_tags` returns the tags of an expression.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.errors import InvalidArgumentError


def wanted_tags(expression: str | Iterable[str] | None) -> frozenset[str] | None:
    """Return the set of the tags in the expression. If the expression selects all messages, also those without a tag,
    return None.

    Raises InvalidArgumentError if the expression contains an empty tag, or "*" together with other tags.
    """
    if expression is None:
        return None
    parts = expression.split("||") if isinstance(expression, str) else list(expression)
    tags = frozenset(part.strip() for part in parts)
    if tags == {"*"} or (tags == {""} and isinstance(expression, str) and not expression.strip()):
        return None
    if not tags or "" in tags or "*" in tags:
        raise InvalidArgumentError(f'{expression!r} is not a tag expression: write "*", "tag" or "tag || another".')
    return tags

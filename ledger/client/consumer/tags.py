"""The tags that a consumer wants, as an expression in RocketMQ's form.

"*"   everything        "paid"   that tag        "paid || refunded"   either tag
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.errors import InvalidArgumentError


def wanted_tags(expression: str | Iterable[str] | None) -> frozenset[str] | None:
    """The tags; None: all messages, also those without a tag. Raises InvalidArgumentError where an expression names
    nothing."""
    if expression is None:
        return None
    parts = expression.split("||") if isinstance(expression, str) else list(expression)
    tags = frozenset(part.strip() for part in parts)
    if tags == {"*"} or (tags == {""} and isinstance(expression, str) and not expression.strip()):
        return None
    if not tags or "" in tags or "*" in tags:
        raise InvalidArgumentError(f'{expression!r} names no tags: write "*", "tag", or "tag || another".')
    return tags

"""Which tags a consumer wants: an expression as RocketMQ has it.

    "*"   everything        "paid"   that tag        "paid || refunded"   any of these

It must not know how messages are filtered.
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

"""Parses the tag expression of a consumer. Tag expressions have the same form as in RocketMQ:

    "*"                  all messages
    "paid"               messages with the tag `paid`
    "paid || refunded"   messages with one of these tags

The function `wanted_tags` returns the tags of an expression.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.client.checked_arguments import checked_list, checked_text, shown
from ledger.errors import InvalidArgumentError


def wanted_tags(expression: str | Iterable[str] | None) -> frozenset[str] | None:
    """Return the set of the tags in the expression. If the expression selects all messages, also those without a tag,
    return None.

    Raises InvalidArgumentError if the expression contains an empty tag, or "*" together with other tags, or if it is
    neither a str nor a list of str.
    """
    if expression is None:
        return None
    parts = expression.split("||") if isinstance(expression, str) else _listed(expression)
    tags = frozenset(part.strip() for part in parts)
    _check_unicode(tags)
    if tags == {"*"} or (tags == {""} and isinstance(expression, str) and not expression.strip()):
        return None
    if not tags or "" in tags or "*" in tags:
        raise InvalidArgumentError(f'{expression!r} is not a tag expression: write "*", "tag" or "tag || another".')
    return tags


def _listed(tags: object) -> list[str]:
    parts = checked_list("tags", tags, 'tags, or a text such as "paid || refunded"')
    for part in parts:
        if not isinstance(part, str):
            raise InvalidArgumentError(f"tags has {shown(part)}: each tag must be a str.")
    return parts


def _check_unicode(tags: Iterable[str]) -> None:
    for tag in tags:
        checked_text("tags", tag)

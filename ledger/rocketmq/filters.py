"""What a consumer wants of a topic: tags, or a condition that RocketMQ calls SQL92."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ledger.errors import LedgerError
from ledger.filters.parse import parse_filter
from ledger.hashing import tag_hash
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.shared import MAX_FILTER_CHARACTERS

ALL = "*"
MAX_TAGS = 256


class FrontFilter(NamedTuple):
    """The hashes of the wanted tags, in order, or a condition. All messages, if both are empty."""

    tag_hashes: tuple[int, ...] = ()
    condition: str = ""


def filter_of(expression: pb.FilterExpression) -> FrontFilter:
    """Return the filter that the expression says. Raises FrontRefusal."""
    text = expression.expression.strip()
    if len(text) > MAX_FILTER_CHARACTERS:
        raise _illegal(f"a filter has at most {MAX_FILTER_CHARACTERS:,} characters")
    if expression.type == pb.SQL:
        if mistake := _mistake(text):
            raise _illegal(mistake)
        return FrontFilter(condition=text)
    if expression.type not in (pb.FILTER_TYPE_UNSPECIFIED, pb.TAG):
        raise _illegal("a filter is of the type TAG or SQL")
    if text in ("", ALL):
        return FrontFilter()
    tags = [tag.strip() for tag in text.split("||")]
    if len(tags) > MAX_TAGS or not all(tags) or any("|" in tag for tag in tags):
        raise _illegal(f'the filter is * or up to {MAX_TAGS} tags with || between them, such as "paid || refunded"')
    return FrontFilter(tuple(sorted(set(map(tag_hash, tags)))))


@lru_cache(maxsize=1024)
def _mistake(text: str) -> str:
    """Return what is wrong with a condition, or ""."""
    try:
        parse_filter(text)
    except LedgerError as error:
        return str(error)
    return ""


def _illegal(message: str) -> FrontRefusal:
    return FrontRefusal(pb.ILLEGAL_FILTER_EXPRESSION, message)

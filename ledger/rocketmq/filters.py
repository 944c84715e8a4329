"""What a consumer wants of a topic: a filter of tags, as the protocol has it."""

from __future__ import annotations

from ledger.hashing import tag_hash
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb

ALL = "*"
MAX_CHARACTERS = 4_096
MAX_TAGS = 256


def tag_hashes(expression: pb.FilterExpression) -> tuple[int, ...]:
    """Return the hashes of the wanted tags, in order; empty: all messages. Raises FrontRefusal."""
    text = expression.expression.strip()
    if expression.type not in (pb.FILTER_TYPE_UNSPECIFIED, pb.TAG):
        raise FrontRefusal(pb.ILLEGAL_FILTER_EXPRESSION, "this cluster filters by tags only")
    if text in ("", ALL):
        return ()
    tags = [tag.strip() for tag in text.split("||")]
    if len(text) > MAX_CHARACTERS or len(tags) > MAX_TAGS or not all(tags) or any("|" in tag for tag in tags):
        raise FrontRefusal(
            pb.ILLEGAL_FILTER_EXPRESSION,
            f'the filter is * or up to {MAX_TAGS} tags with || between them, such as "paid || refunded"',
        )
    return tuple(sorted(set(map(tag_hash, tags))))

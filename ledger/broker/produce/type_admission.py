"""Decides whether the type of a topic allows a producer's batch. The decision changes nothing.

    type of the topic   a plain message             with a delivery time   in a transaction
    MIXED               allowed                     allowed                allowed
    NORMAL              allowed                     refused                refused
    FIFO                allowed if it has a key     refused                refused
    DELAY               refused                     allowed                refused
    TRANSACTION         refused                     refused                allowed

A refusal is an InvalidArgumentError. The topic is the one that consumers read, and not the topic in which the messages
wait. What the broker itself appends, such as a waiting message at its delivery time, is not judged here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ledger.batch import BatchHeader, HalfColumn, TimedColumn
from ledger.batch.header import key_hashes
from ledger.errors import InvalidArgumentError
from ledger.state import Topic
from ledger.topics import TopicType

_TIMED, _HALF, _PLAIN = "messages with delivery times", "messages of transactions", "plain messages"
_ALLOWED = {
    TopicType.NORMAL: _PLAIN,
    TopicType.FIFO: _PLAIN,
    TopicType.DELAY: _TIMED,
    TopicType.TRANSACTION: _HALF,
}
_ADVICE = {_TIMED: "give messages a `deliver_at` or `delay`", _HALF: "send messages in a transaction"}


def target_topic(topic_id: int, timed: TimedColumn | None, half: HalfColumn | None) -> int:
    """Return the id of the topic in which consumers will read the messages of a batch that is sent to `topic_id`."""
    column = timed if half is None else half
    return topic_id if column is None else column.topic_id


def without_key(batch: bytes, header: BatchHeader) -> Sequence[int]:
    """Return the places of the messages of the batch that have no key."""
    hashes = key_hashes(batch, header)
    if hashes is None:
        return range(header.count)
    places: list[int] = np.flatnonzero(hashes == 0).tolist()
    return places


def check_type(
    topic: Topic | None,
    topic_type: TopicType,
    timed: TimedColumn | None,
    half: HalfColumn | None,
    count: int,
    without_key: Sequence[int],
) -> None:
    """Raise InvalidArgumentError if a topic of this type does not take the `count` messages of a batch. `without_key`
    are the places of those that have no key. The error has them if they are the reason, and not all messages."""
    allowed = _ALLOWED.get(topic_type)
    if topic is None or allowed is None:
        return
    sent = _TIMED if timed is not None else _HALF if half is not None else _PLAIN
    if sent != allowed:
        raise InvalidArgumentError(
            f"topic {topic.name!r} has the type {topic_type.word}, which takes no {sent}: "
            f"{_ADVICE.get(allowed, 'send messages without delivery times and outside of transactions')}, use another "
            f"topic, or change the type (`ledgermq topic alter {topic.name} --type mixed`)"
        )
    if topic_type is TopicType.FIFO and without_key:
        raise InvalidArgumentError(
            f"topic {topic.name!r} has the type fifo, and a message has no key: messages with one key are handled in "
            "their order, so give each message a key",
            places=without_key if len(without_key) < count else (),
        )

"""Checks the offset at which a consumer group begins to consume a queue, or to which an operator resets the
consumer group."""

from __future__ import annotations

from ledger.broker.broker_replica import BrokerReplica
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import InvalidArgumentError, out_of_range
from ledger.topics import check_readable


def start_offset(replica: BrokerReplica, topic_id: int, queue: int, wanted: int) -> int:
    """Return the start offset that `wanted` means. AT_THE_FIRST means the first offset of the queue, BEHIND_THE_LAST
    means its end, and a value of 0 or more is the offset itself.

    Raises UnknownTopicError, UnknownQueueError, InvalidArgumentError, and InvalidTopicNameError for a topic that no
    client reads.
    """
    check_readable(replica.state.topics.require(topic_id, queue).name)
    if wanted >= 0:
        return wanted
    if wanted == AT_THE_FIRST:
        return replica.queues.get(topic_id, queue).first_offset
    if wanted == BEHIND_THE_LAST:
        return replica.state.next_offset(topic_id, queue)
    raise InvalidArgumentError(f"{wanted} cannot be a start offset: give 0 or more")


def check_offset(replica: BrokerReplica, topic_id: int, queue: int, offset: int) -> None:
    """Raise OffsetTooLowError if the offset is before the queue's first offset, and OffsetBeyondEndError if it is
    after the queue's end. If topic or queue does not exist, raise UnknownTopicError or UnknownQueueError."""
    topic = replica.state.topics.require(topic_id, queue)
    first = replica.queues.get(topic_id, queue).first_offset
    end = replica.state.next_offset(topic_id, queue)
    if not first <= offset <= end:
        sentence = f"a consumer group cannot begin at offset {offset} of queue {queue} of topic {topic.name!r}"
        raise out_of_range(sentence, offset, first, end)

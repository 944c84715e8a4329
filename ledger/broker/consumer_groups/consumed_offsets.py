"""The offsets at which a consumer group may begin to consume a queue, or to which an operator may set it."""

from __future__ import annotations

from ledger.broker.broker_replica import BrokerReplica
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import InvalidArgumentError, out_of_range


def start_offset(replica: BrokerReplica, topic_id: int, queue: int, wanted: int) -> int:
    """The offset that `wanted` means at this leader: an offset, AT_THE_FIRST or BEHIND_THE_LAST.

    Raises UnknownTopicError, UnknownQueueError, InvalidArgumentError.
    """
    replica.state.topics.require(topic_id, queue)
    if wanted >= 0:
        return wanted
    if wanted == AT_THE_FIRST:
        return replica.queues.get(topic_id, queue).first_offset
    if wanted == BEHIND_THE_LAST:
        return replica.state.next_offset(topic_id, queue)
    raise InvalidArgumentError(f"{wanted} is no offset to begin at")


def check_offset(replica: BrokerReplica, topic_id: int, queue: int, offset: int) -> None:
    """Raises OffsetTooLowError, OffsetBeyondEndError, UnknownTopicError, UnknownQueueError."""
    topic = replica.state.topics.require(topic_id, queue)
    first = replica.queues.get(topic_id, queue).first_offset
    end = replica.state.next_offset(topic_id, queue)
    if not first <= offset <= end:
        sentence = f"queue {queue} of topic {topic.name!r} cannot be consumed from offset {offset} on"
        raise out_of_range(sentence, offset, first, end)

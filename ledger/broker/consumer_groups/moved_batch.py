"""Makes the batch of a move: the copy of one message for a retry topic or the dead letters of its consumer group."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.batch import Batch, encode
from ledger.batch.cut import cut
from ledger.broker.broker_replica import BrokerReplica
from ledger.codec import Codec
from ledger.errors import InvalidArgumentError, StorageFailedError, UnknownTopicError, out_of_range
from ledger.retries import dead_letter_topic, moved_headers, retry_topic
from ledger.state import Topic
from store import UNREADABLE

# The producer id of batches that the broker itself makes. No other producer has it.
BROKER = 0


@dataclass(frozen=True, slots=True)
class MessageMove:
    """A request to move one message to a retry topic, or with `give_up` to the dead letters. The owner of the
    message's queue sends the request.

    `epoch` and `resets` come from the result of the owner's claim. `attempt` is the number of deliveries of the
    message so far, which decides the delay."""

    consumer_group: str
    topic_id: int
    queue: int
    epoch: int
    resets: int
    offset: int
    attempt: int
    give_up: bool


def moved_batch(replica: BrokerReplica, wanted: MessageMove) -> bytes:
    """Return a new batch that contains only this message and is addressed to the target queue. It is compressed as the
    stored batch is: without compression, a message with a large key may not fit into an entry."""
    topic = replica.state.topics.require(wanted.topic_id, wanted.queue)
    message = _message(replica, wanted)
    there, queue = _target(replica, wanted)
    headers = moved_headers(
        message.headers()[0],
        here=f"{topic.name}:{wanted.queue}:{wanted.offset}",
        came_from=f"{wanted.topic_id}:{wanted.queue}:{wanted.offset}",
        attempt=wanted.attempt,
    )
    return encode(
        message.values(),
        topic_id=there.topic_id,
        queue=queue,
        producer_id=BROKER,
        epoch=0,
        first_sequence=replica.next_offset(there.topic_id, queue),
        base_timestamp_ms=message.timestamps_ms()[0],
        keys=message.keys(),
        tags=message.tags(),
        headers=[headers],
        look_up_keys=message.look_up_keys(),
        codec=Codec(message.header.codec),
    )


def _message(replica: BrokerReplica, wanted: MessageMove) -> Batch:
    """Return a batch that has only the message. The others of its stored batch, which may be thousands, are not read.
    Raises OffsetTooLowError, OffsetBeyondEndError, StorageFailedError."""
    units = replica.queues.get(wanted.topic_id, wanted.queue)
    end = replica.state.next_offset(wanted.topic_id, wanted.queue)
    if wanted.offset < units.first_offset:
        sentence = f"message {wanted.offset} of queue {wanted.queue} was removed from the log"
        raise out_of_range(sentence, wanted.offset, units.first_offset, end)
    if wanted.offset >= end:
        sentence = f"queue {wanted.queue} has no message {wanted.offset} yet"
        raise out_of_range(sentence, wanted.offset, units.first_offset, end)
    unit = units.read(wanted.offset, 1)
    try:
        header, body = replica.log.reading.entry_at(int(unit["position"][0]), int(unit["size"][0]))
    except UNREADABLE as damage:
        raise StorageFailedError(
            f"message {wanted.offset} of queue {wanted.queue} cannot be read on this node: {damage}"
        ) from damage
    batch, at = Batch(bytes(body)), wanted.offset - header.base_offset
    if not 0 <= at < len(batch):
        raise StorageFailedError(
            f"the index of queue {wanted.queue} is damaged at message {wanted.offset} on this node: try again later"
        )
    return Batch(cut(batch, [at]))


def _target(replica: BrokerReplica, wanted: MessageMove) -> tuple[Topic, int]:
    """Return the topic and the queue that receive the moved message. The returned queue is one of this shard.
    Attempt 1 uses the first retry queue of this shard, attempt 2 uses the second retry queue, and so on. If
    the attempt number is larger than the number of retry queues in this shard, use the last queue."""
    of = dead_letter_topic if wanted.give_up else retry_topic
    name = of(wanted.consumer_group)
    topic = replica.state.topics.named(name)
    queues = [] if topic is None else [i for i, shard in enumerate(topic.shards) if shard == replica.shard]
    if topic is None or not queues:
        raise UnknownTopicError(f"topic {name} has no queue in shard {replica.shard} yet: prepare retries first")
    if wanted.attempt < 1:
        raise InvalidArgumentError(f"attempt {wanted.attempt} is not possible: the first attempt is 1")
    return topic, queues[min(wanted.attempt, len(queues)) - 1]

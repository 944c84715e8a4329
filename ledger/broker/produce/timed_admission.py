"""Decides whether a producer may send a batch of messages with delivery times. The decision depends only on the
arguments, and changes nothing.

    the batch has a column that only the broker makes         InvalidArgumentError
    messages with delivery times are not for `%TIMED`         InvalidArgumentError
    messages of `%TIMED` have no delivery times               InvalidTopicNameError
    the target topic belongs to the broker                    InvalidTopicNameError
    the target queue does not exist                           UnknownTopicError, UnknownQueueError
    the target queue is in another shard                      InvalidArgumentError
    a delivery time is too far ahead                          InvalidArgumentError
    too many bytes wait in the shard                          BusyError

The last five rules count only for a batch that would be appended. A batch that was committed earlier gets its earlier
result again, even if its target was deleted meanwhile.
"""

from __future__ import annotations

from ledger.batch import BatchHeader, TimedColumn
from ledger.batch.header import COPIED, DECIDED, FIRED
from ledger.broker.produce.timed_limits import DEFAULT_ROOM, TimedRoom
from ledger.errors import BusyError, InvalidArgumentError, InvalidTopicNameError
from ledger.state import Projected, State, Topic
from ledger.timed import TIMED_TOPIC
from ledger.topics import is_system_topic
from ledger.transactions import HALF_TOPIC

DAY_MS = 86_400_000


# How a producer writes to a topic of the broker.
_ADVICE = {
    TIMED_TOPIC: ": give messages a `deliver_at` or `delay`",
    HALF_TOPIC: ": send messages in a transaction",
}


def check_columns(header: BatchHeader) -> None:
    """Raise InvalidArgumentError if a producer's batch has a column that only the broker makes."""
    if header.columns & (FIRED | COPIED | DECIDED):
        raise InvalidArgumentError(
            f"A batch has columns ({header.columns:#x}) that only brokers make: send messages without them."
        )


def check_topic(topic: Topic | None, timed: TimedColumn | None) -> None:
    """Raise an error if a producer may not send a batch to this topic. `timed` is the batch's column of delivery times,
    and None if it has none."""
    if topic is None:
        return
    if timed is None and is_system_topic(topic.name):
        advice = _ADVICE.get(topic.name, "")
        raise InvalidTopicNameError(f"topic {topic.name!r} is internal: only the broker writes to it{advice}")
    if timed is not None and topic.name != TIMED_TOPIC:
        raise InvalidArgumentError(
            f"messages with delivery times wait in topic {TIMED_TOPIC!r}, and cannot be sent to {topic.name!r}"
        )


def check_timed(
    timed: TimedColumn,
    queue: int,
    state: State,
    projected: Projected,
    now_ms: int,
    room: TimedRoom = DEFAULT_ROOM,
) -> None:
    """Raise an error if the batch for `queue` of `%TIMED` must not be appended. `now_ms` is the leader's time, in ms
    since 1970."""
    target = state.topics.get(timed.topic_id)
    if target is not None and is_system_topic(target.name):
        raise InvalidTopicNameError(f"topic {target.name!r} is internal: messages cannot be delivered to it")
    projected.require(timed.topic_id, timed.queue)
    here, waits_in = state.topics.require(timed.topic_id, timed.queue), state.topics.named(TIMED_TOPIC)
    if waits_in is None or here.shards[timed.queue] != waits_in.shards[queue]:
        raise InvalidArgumentError(
            f"queue {timed.queue} of topic {here.name!r} is not in the shard of queue {queue} of {TIMED_TOPIC!r}: "
            "fetch the routes again"
        )
    latest = int(timed.times_ms.max())
    if latest > now_ms + room.max_days * DAY_MS:
        raise InvalidArgumentError(
            f"a delivery time is {(latest - now_ms) / DAY_MS:,.1f} days ahead, and the limit is {room.max_days:g} days "
            "(`timed_max_days`): send the message later"
        )
    if room.waiting_bytes >= room.limit_bytes > 0:
        raise BusyError(
            f"{room.waiting_bytes:,} bytes of messages wait for their delivery times in this shard, and the limit is "
            f"{room.limit_bytes:,} bytes (`timed_waiting_bytes`): send again when some were delivered, cancel messages "
            "(`ledgermq timer cancel`), or raise the limit"
        )

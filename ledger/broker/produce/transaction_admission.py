"""Decides which batches of producers may wait for the end of a transaction. The first rule that matches is applied:

    the topic is not `%HALF`                                  InvalidArgumentError
    the batch says that it is a copy                          InvalidArgumentError
    the target topic is internal, or does not exist           InvalidTopicNameError, UnknownTopicError
    the target queue does not exist                           UnknownQueueError
    the target queue is in another shard                      InvalidArgumentError
    the batch begins a transaction of another shard           InvalidArgumentError
    its transaction is of a shard that cannot exist           InvalidArgumentError
    its transaction is of a shard that this node knows not    BusyError
    its transaction of this shard is not open                 TransactionEndedError, UnknownTransactionError
    its transaction has MAX_HALVES half batches here          InvalidArgumentError
    too many half batches, of all topics or of this, wait     BusyError
    too many bytes of half batches wait                       BusyError

All rules but the first count only for a batch that would be appended. A batch that was committed earlier gets its
earlier result again.
"""

from __future__ import annotations

from ledger.batch import HalfColumn
from ledger.broker.produce.timed_limits import TimedRoom
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    TransactionEndedError,
    UnknownTransactionError,
)
from ledger.state import Projected, State, Topic
from ledger.state.shard_table import MAX_SHARDS, ShardTable
from ledger.state.transaction_table import HERE
from ledger.topics import is_system_topic
from ledger.transactions import HALF_TOPIC, MAX_HALVES, MAX_WAITING_HALVES, MAX_WAITING_HALVES_OF_A_TOPIC


def check_half_topic(topic: Topic | None) -> None:
    """Raise InvalidArgumentError if half batches cannot be sent to this topic."""
    if topic is not None and topic.name != HALF_TOPIC:
        raise InvalidArgumentError(
            f"messages of a transaction wait in topic {HALF_TOPIC!r}, and cannot be sent to {topic.name!r}"
        )


def check_half(
    half: HalfColumn, queue: int, state: State, projected: Projected, room: TimedRoom, shards: ShardTable
) -> None:
    """Raise an error if the half batch for `queue` of `%HALF` must not be appended. `shards` are the shards of the
    cluster, as far as this node knows them."""
    if half.copy_of is not None:
        raise InvalidArgumentError("only brokers copy half batches: send messages without copies")
    target = state.topics.get(half.topic_id)
    if target is not None and is_system_topic(target.name):
        raise InvalidTopicNameError(f"topic {target.name!r} is internal: transactions cannot send to it")
    projected.require(half.topic_id, half.queue)
    here, waits_in = state.topics.require(half.topic_id, half.queue), state.topics.named(HALF_TOPIC)
    if waits_in is None or here.shards[half.queue] != waits_in.shards[queue]:
        raise InvalidArgumentError(
            f"queue {half.queue} of topic {here.name!r} is not in the shard of queue {queue} of {HALF_TOPIC!r}: fetch "
            "the routes again"
        )
    is_own = half.shard == here.shards[half.queue]
    if half.transaction is None and not is_own:
        raise InvalidArgumentError(
            f"a transaction of shard {half.shard} cannot begin in shard {here.shards[half.queue]}: fetch the routes "
            "again"
        )
    if not is_own:
        check_shard(half.shard, shards)
    if half.transaction is not None and is_own and not is_open(state, projected, half.transaction):
        raise not_open(state, half.transaction)
    waiting = projected.transactions
    if half.transaction is not None:
        joined = waiting.count_of(half.transaction, HERE if is_own else half.shard)
        if joined >= MAX_HALVES:
            raise InvalidArgumentError(
                f"the transaction has {joined} half batches in this shard, which is the limit: send fewer messages in "
                "one transaction"
            )
    if waiting.waiting >= MAX_WAITING_HALVES:
        raise BusyError(
            f"{waiting.waiting} half batches wait in this shard, which is the limit: end transactions "
            "(`ledgermq transaction list`), or send again later"
        )
    if waiting.waiting_of(half.topic_id) >= MAX_WAITING_HALVES_OF_A_TOPIC:
        raise BusyError(
            f"{waiting.waiting_of(half.topic_id)} half batches of topic {here.name!r} wait in this shard, which is the "
            "limit for one topic: end transactions (`ledgermq transaction list`), or send again later"
        )
    if waiting.waiting_bytes >= room.limit_bytes > 0:
        raise BusyError(
            f"{waiting.waiting_bytes:,} bytes of half batches wait in this shard, and the limit is "
            f"{room.limit_bytes:,} bytes: end transactions (`ledgermq transaction list`), or send again later"
        )


def check_shard(shard: int, shards: ShardTable) -> None:
    """Raise InvalidArgumentError if no shard can have this number, and BusyError if this node does not know the shard:
    it may be new."""
    if not 0 <= shard < MAX_SHARDS:
        raise InvalidArgumentError(f"there is no shard {shard}: shards are 0 to {MAX_SHARDS - 1}")
    if shard not in shards:
        raise BusyError(
            f"this node does not know shard {shard}: the last shard is {shards.numbers[-1]}. If the shard is new, "
            "try again shortly"
        )


def is_open(state: State, projected: Projected, transaction: int) -> bool:
    """Return True if the transaction of this shard is open, and no entry on its way ends it."""
    return state.transactions.is_open(transaction) and projected.transactions.waits(transaction)


def not_open(state: State, transaction: int) -> LedgerError:
    """Return the error for a transaction of this shard that is not open, or that an entry on its way ends."""
    ended = state.transactions.outcomes.get(transaction)
    if ended is not None:
        return TransactionEndedError(f"the transaction was {ended.outcome.phrase} before")
    if state.transactions.is_open(transaction):
        return TransactionEndedError("the transaction is being ended")
    if transaction < state.half_end():
        return TransactionEndedError("the transaction was decided before, and its outcome is no longer known")
    return UnknownTransactionError("there is no such transaction: its id is of another cluster, or was changed")

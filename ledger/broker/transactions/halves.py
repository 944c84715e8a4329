"""Reads half batches from the log of a leader, and makes the batches that settle them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ledger.batch import Batch, DecidedColumn, dead_letter_batch, decided_batch
from ledger.batch.transactions import half_column
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.log_batches import batch_entry_at
from ledger.errors import InvalidArgumentError, StorageFailedError
from ledger.retries import ATTEMPT, MOVED_HEADERS, ORIGIN
from ledger.state import HalfBatch, Topic
from ledger.state.transaction_table import HERE
from ledger.transactions import HALF_TOPIC, TRANSACTION, TransactionId
from store import StoreError


def half_queue(replica: BrokerReplica) -> tuple[int, int] | None:
    """Return topic id and number of this shard's queue of `%HALF`, or None if the shard has none."""
    topic = replica.state.topics.named(HALF_TOPIC)
    if topic is None or replica.shard not in topic.shards:
        return None
    return topic.topic_id, topic.shards.index(replica.shard)


def read_half(replica: BrokerReplica, half: HalfBatch) -> bytes:
    """Return the bytes of a half batch that waits. Raises StorageFailedError if this node cannot read it."""
    try:
        body = _body_at(replica, half.place)
    except StoreError as failure:
        raise StorageFailedError(f"this node cannot read the half batch {half.number}: {failure}") from failure
    if body is None:
        raise StorageFailedError(
            f"this node cannot read the half batch {half.number}: repair the log, or hand leadership to another node"
        )
    return body


def topic_of_half(replica: BrokerReplica, number: int) -> int | None:
    """Return the id of the target topic of a half batch, which need not wait any more. Return None if this node has
    not its bytes any more, or cannot read them."""
    try:
        body = _body_at(replica, number)
    except StoreError:
        return None
    column = None if body is None else half_column(body)
    return None if column is None else column.topic_id


def _body_at(replica: BrokerReplica, offset: int) -> bytes | None:
    """Return the bytes of the batch at this offset of the shard's queue of `%HALF`, or None if it is not there. Raises
    StoreError."""
    place = half_queue(replica)
    if place is None:
        return None
    units = replica.queues.get(*place).read(offset, 1)
    if not len(units):
        return None
    found = batch_entry_at(replica.log, int(units["position"][0]), int(units["size"][0]))
    return None if found is None or found[0].base_offset != offset else bytes(found[1])


def decision_shard(replica: BrokerReplica, half: HalfBatch) -> int:
    """Return the number of the decision shard of a half batch."""
    return replica.shard if half.shard == HERE else half.shard


def carried_out(replica: BrokerReplica, half: HalfBatch, *, decides: bool) -> bytes:
    """Return the batch that puts the messages of a half batch into its target queue. Raises StorageFailedError, or
    another LedgerError if this node does not lead."""
    body = read_half(replica, half)
    column = DecidedColumn(half.number, half.transaction, decision_shard(replica, half), decides=decides)
    sequence = replica.next_offset(half.topic_id, half.queue)
    return decided_batch(body, column, topic_id=half.topic_id, queue=half.queue, first_sequence=sequence)


def dead_letters(replica: BrokerReplica, half: HalfBatch, to: Topic, *, decides: bool) -> bytes:
    """Return the batch that puts the messages of a half batch into the dead-letter topic `to`, with headers that say
    where they come from. If an entry has no room for all of these headers, the messages get less of them, because one
    entry settles a half batch. Raises InvalidArgumentError if they are too large even so, and the errors of
    `carried_out`."""
    queue = to.shards.index(replica.shard)
    shard = decision_shard(replica, half)
    source = replica.state.topics.get(half.topic_id)
    name = source.name if source is not None else f"#{half.topic_id}"
    headers = [
        (ATTEMPT, b"%d" % half.unknowns),
        (ORIGIN, f"{name}:{half.queue}:half-{half.number}".encode()),
        (TRANSACTION, str(TransactionId(half.topic_id, shard, half.transaction)).encode()),
    ]
    messages = Batch(read_half(replica, half), check_crc=False)
    column = DecidedColumn(half.number, half.transaction, shard, decides=decides, dead=True)

    def batch_with(added: Sequence[tuple[str, bytes]]) -> bytes:
        return dead_letter_batch(
            messages,
            column,
            replaced=(*MOVED_HEADERS, TRANSACTION),
            headers=added,
            topic_id=to.topic_id,
            queue=queue,
            first_sequence=replica.next_offset(to.topic_id, queue),
        )

    for added in (headers, [header for header in headers if header[0] == ORIGIN]):
        with suppress(InvalidArgumentError):  # too large for a batch
            if replica.fits(batch := batch_with(added)):
                return batch
    return batch_with(())

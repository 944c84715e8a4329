"""A message of a shared group, with the lease by which its member acknowledges it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from ledger.batch import decided_column
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.records import Message, Received
from ledger.errors import CorruptBatchError
from ledger.v1 import consumer_group_pb2

# The kinds of changes of a lease, as in WantedChange.kind.
ACKNOWLEDGE, PUT_OFF, GIVE_BACK, EXTEND = 1, 2, 3, 4


class MessageLease(NamedTuple):
    """The lease of one message. `entry` is the index of the entry that granted it, and `resets` says how often the
    offset of the group had been reset."""

    shard: int
    topic_id: int
    queue: int
    offset: int
    entry: int
    resets: int


class SharedMessage(Message[Received]):
    """A message that a SharedConsumer received. It has all fields of a Message."""

    lease: MessageLease
    # How often the message was handed out to the group, this time included. The number of the first time is 1.
    attempt: int = 1  # a value, and not the property of Message
    # When the lease ends, by the clock of the event loop in seconds. The consumer moves it when it extends the lease.
    ends_s: float
    # When the request that leased the message was sent, by the same clock. The lease did not begin before.
    asked_s: float
    # The shard and the number of the transaction that has committed the message, or None.
    transaction: tuple[int, int] | None = None


class SentChange(NamedTuple):
    """A change of leases that the leader of the shard has answered: it counted for `counted` messages."""

    shard: int
    change: consumer_group_pb2.WantedChange
    counted: int

    @property
    def counts_for_all(self) -> bool:
        """True if it counted for each of its messages."""
        return self.counted == self.change.size

    @property
    def leases(self) -> Iterator[MessageLease]:
        """The leases that it names."""
        wanted = self.change
        for offset in range(wanted.first, wanted.first + wanted.size):
            yield MessageLease(self.shard, wanted.topic_id, wanted.queue, offset, wanted.lease, wanted.resets)


def leased_messages(
    shard: int, topic: str, wire: consumer_group_pb2.SharedBatch, asked_s: float, ends_s: float, *, check_crc: bool
) -> list[SharedMessage[bytes]]:
    """Return the messages of one batch. Raises CorruptBatchError, UnsupportedBatchError."""
    batch = decoded(wire.body, topic, wire.queue, wire.base_offset, check_crc=check_crc)
    if len(wire.attempts) != len(batch):
        raise CorruptBatchError(
            f'A node handed out {len(batch)} messages of queue {wire.queue} of topic "{topic}" with attempts of '
            f"{len(wire.attempts)}: the leases end in their time."
        )
    plain = messages_of(
        batch,
        topic=topic,
        queue=wire.queue,
        base_offset=wire.base_offset,
        term=0,
        append_time_ms=wire.append_time_ms,
    )
    decided = decided_column(wire.body, batch.header)
    found = []
    for message, attempt in zip(plain, wire.attempts, strict=True):
        leased: SharedMessage[bytes] = SharedMessage._make(message)
        leased.lease = MessageLease(shard, wire.topic_id, wire.queue, message.offset, wire.lease, wire.resets)
        leased.attempt, leased.asked_s, leased.ends_s = attempt, asked_s, ends_s
        if decided is not None and not decided.dead:
            leased.transaction = decided.shard, decided.transaction
        found.append(leased)
    return found


def with_value(message: SharedMessage[bytes], deserializer: Callable[[bytes], Any]) -> SharedMessage[Any]:
    """Return the message with the value that the deserializer makes."""
    changed: SharedMessage[Any] = SharedMessage._make((*message[:6], deserializer(message.value), *message[7:]))
    changed.lease, changed.attempt = message.lease, message.attempt
    changed.asked_s, changed.ends_s, changed.transaction = message.asked_s, message.ends_s, message.transaction
    return changed


def changes_of(
    leases: Iterable[MessageLease], kind: int, duration_ms: int = 0
) -> Iterator[consumer_group_pb2.WantedChange]:
    """Yield the changes of these leases, one for each run of neighbouring messages with the same lease. The leases are
    of one shard."""
    ordered = sorted(leases)
    numbered = enumerate(ordered)
    for _, run in groupby(numbered, key=lambda each: (each[1]._replace(offset=0), each[1].offset - each[0])):
        some = [lease for _, lease in run]
        yield consumer_group_pb2.WantedChange(
            kind=kind,
            topic_id=some[0].topic_id,
            queue=some[0].queue,
            first=some[0].offset,
            size=len(some),
            lease=some[0].entry,
            resets=some[0].resets,
            duration_ms=duration_ms,
        )

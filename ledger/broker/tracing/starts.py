"""Finds the entry of a message, and where the message waited before it got its place."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ledger.batch import Batch, BatchHeader, decided_column, fired_column, half_column, target_of
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.log_batches import batch_entry_at
from ledger.broker.slow.senders import Senders
from ledger.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    StorageFailedError,
    UnknownTopicError,
    out_of_range,
)
from ledger.message_trace import TracedEntry, TracedPlace, TraceEvent
from ledger.timed import TIMED_TOPIC
from ledger.transactions import HALF_TOPIC
from store import Header


class TraceStart(NamedTuple):
    """The place from which a message is followed, its entry, and what is known from before."""

    place: TracedPlace
    entry: TracedEntry
    # What happened to it up to this place.
    events: list[TraceEvent]
    # The offset of the first message of its batch, which is the number of a half batch.
    base_offset: int


def start_at(replica: BrokerReplica, place: TracedPlace, senders: Senders) -> TraceStart:
    """Return the start for the message at this place. Raises LedgerError if the queue has no such message, and
    StoreError."""
    header, body = _entry(replica, place)
    batch = BatchHeader.parse(body)
    number = place.offset - header.base_offset
    earlier = _earlier(replica, batch, body, number)
    events: list[TraceEvent] = []
    entry = _described(header, batch, body, number, senders)
    if earlier is not None:
        try:
            first, first_body = _entry(replica, earlier)
        except (OffsetOutOfRangeError, UnknownTopicError):
            return TraceStart(place, entry, [], 0)  # the log start has moved behind it
        source = BatchHeader.parse(first_body)
        kind = "prepared" if half_column(first_body, source) is not None else "waits"
        events.append(TraceEvent(first.append_time_ms, first.index, kind, at=earlier))
        how = "its transaction committed" if kind == "prepared" else "at its delivery time"
        events.append(TraceEvent(header.append_time_ms, header.index, "delivered", "", how, earlier, place))
        sent = _described(first, source, first_body, earlier.offset - first.base_offset, senders)
        entry = replace(
            entry,
            producer_id=sent.producer_id,
            epoch=sent.epoch,
            sequence=sent.sequence,
            timestamp_ms=sent.timestamp_ms,
            client=sent.client,
        )
        return TraceStart(place, entry, events, 0)
    if half_column(body, batch) is not None:
        events.append(TraceEvent(header.append_time_ms, header.index, "prepared", at=place))
    elif target_of(body) is not None:
        events.append(TraceEvent(header.append_time_ms, header.index, "waits", at=place))
    return TraceStart(place, entry, events, header.base_offset)


def waiting_place(replica: BrokerReplica, target_topic_id: int, identity: int) -> TracedPlace:
    """Return the place in `%TIMED` of the message with this identity. Raises UnknownTopicError if this shard never had
    such messages, and InvalidArgumentError if the message is not for this topic."""
    place = _own_queue(replica, TIMED_TOPIC, identity)
    _, body = _entry(replica, place)
    target = target_of(body)
    if target is None or target[0] != target_topic_id:
        raise InvalidArgumentError(f"the waiting message {identity} is not for this topic: pass the handle unchanged")
    return place


def _earlier(replica: BrokerReplica, batch: BatchHeader, body: bytes | memoryview, number: int) -> TracedPlace | None:
    """Return where the message waited before it got this place, or None if a producer sent it here."""
    fired = fired_column(body, batch)
    if fired is not None:
        return _own_queue(replica, TIMED_TOPIC, int(fired.identities[number]))
    decided = decided_column(body, batch)
    if decided is not None:
        return _own_queue(replica, HALF_TOPIC, decided.half + number)
    return None


def _own_queue(replica: BrokerReplica, name: str, offset: int) -> TracedPlace:
    """Return a place in the queue of a topic of the broker that is in this shard."""
    topic = replica.state.topics.named(name)
    queues = [] if topic is None else [number for number, at in enumerate(topic.shards) if at == replica.shard]
    if topic is None or not queues:
        raise UnknownTopicError(f"shard {replica.shard} has no queue of {name}")
    return TracedPlace(topic.topic_id, queues[0], offset)


def _entry(replica: BrokerReplica, place: TracedPlace) -> tuple[Header, memoryview]:
    """Return the entry of the message at this place."""
    replica.state.topics.require(place.topic_id, place.queue)
    units = replica.queues.get(place.topic_id, place.queue)
    end = replica.state.next_offset(place.topic_id, place.queue)
    if not units.first_offset <= place.offset < end:
        sentence = f"queue {place.queue} has no message {place.offset}"
        raise out_of_range(sentence, place.offset, units.first_offset, end)
    position, size, _ = units.read(place.offset, 1)[0].item()
    found = batch_entry_at(replica.log, position, size)
    if found is None or not 0 <= place.offset - found[0].base_offset < found[0].count:
        raise StorageFailedError(
            f"the index of queue {place.queue} is damaged at message {place.offset} on this node: ask another node"
        )
    return found


def _described(
    header: Header, batch: BatchHeader, body: bytes | memoryview, number: int, senders: Senders
) -> TracedEntry:
    timestamps = Batch(bytes(body), check_crc=False).timestamps_ms()
    return TracedEntry(
        header.index,
        header.term,
        header.append_time_ms,
        header.count,
        batch.producer_id,
        batch.epoch,
        batch.first_sequence + number,
        int(timestamps[number]),
        senders.get(batch.producer_id) if batch.producer_id else None,
    )

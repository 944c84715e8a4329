"""Encodes the replicated state as bytes. A snapshot contains the encoded state, and the digest of a state is a hash of
the encoded state.

All numbers are little-endian, and there are no gaps between the fields.

    +-------+---------+---------+------------+--------+---------+-----------+-------+--------+-------------+
    | magic | version | next id | changed at | topics | offsets | producers | holds | shards | consumption |
    |       |         |         | (8 bytes)  |        |         |           |       |        |             |
    +-------+---------+---------+------------+--------+---------+-----------+-------+--------+-------------+
                                               how many follow; for consumption, its bytes
    each topic       id, queues, created_ms, bytes of the name; the name in UTF-8;          in the order of creation
                     number of open queues; the shard of each queue
    each offset      topic id, queue, next offset                                           sorted
    each producer    producer id, topic id, queue, epoch, next sequence, last append time,
                     number of records; the records                                         least recently used first
    each record      first sequence, count, base offset, append time, index, term           oldest first
    each hold        index, taken_ms, expires_ms, bytes of the name; the name in UTF-8      sorted by name
    each shard       number, number of nodes; the nodes, in order; the incarnation of each  sorted by number
    consumption      encoded by consumption_encoding.py
    feature level    4 bytes; from version 7 on
    access           bytes that follow; encoded by access_encoding.py; from version 8 on
    timed            time and identity of the cursor, its seen offset, number of open messages; the open messages; from
                     version 9 on
    each open one    identity, delivery time                                                sorted
    transactions     bytes that follow; encoded by transaction_encoding.py; from version 10 on
    leases           bytes that follow; encoded by lease_encoding.py; from version 10 on
    topic types      number of topics that have another type than MIXED; from version 11 on
    each of them     topic id, type                                                         in the order of creation
    message ids      number of records; the records (message_ids.py); from version 11 on      in the order of the log
    placement        bytes that follow; encoded by placement_table.py; from version 12 on
    pinned leader    node, incarnation; 0 and zeros without a pin; from version 12 on
    coordinators     bytes that follow; encoded by coordinator_table.py; from version 12 on
    crc              CRC32C of all before it

Equal states have equal bytes, because the order of all fields is fixed and the bytes contain only data that is equal
on all replicas. For the same reason the state chooses the version, and not the program: version 6 while the feature
level is 0, version 7 at level 1, version 8 at level 2, version 9 at level 3, version 10 at level 4, version 11 at level
5, and version 12 from level 6 on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import google_crc32c

from ledger.errors import InternalError
from ledger.state.access_encoding import decode_access, encode_access
from ledger.state.access_table import AccessTable
from ledger.state.consumption import Consumption
from ledger.state.consumption_encoding import decode_consumption, encode_consumption
from ledger.state.coordinator_table import CoordinatorTable
from ledger.state.feature_levels import ACCESS_CONTROL, LATEST_LEVEL, PLACEMENT, TIMED, TOPIC_TYPES, TRANSACTIONS
from ledger.state.hold_table import Hold, HoldTable
from ledger.state.lease_encoding import decode_leases, encode_leases
from ledger.state.message_ids import MessageIds
from ledger.state.pinned_leader import PinnedLeader
from ledger.state.placement_table import PlacementTable
from ledger.state.producers import ProducerLimits, ProducerQueue, Producers
from ledger.state.sequence import BatchRecord, Sequence
from ledger.state.shard_table import ShardTable
from ledger.state.shared_groups import SharedGroups
from ledger.state.timed_table import TimedCursor, TimedTable
from ledger.state.topic_table import Topic, TopicTable
from ledger.state.transaction_encoding import decode_transactions, encode_transactions
from ledger.state.transaction_table import TransactionTable
from ledger.topics import TopicType
from store.directory.vote_file import INCARNATION_BYTES

MAGIC = int.from_bytes(b"LMQS", "little")
# The versions of a state at the feature levels 0 to 5, and the version of a state at a higher level.
VERSION_0, VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION = 6, 7, 8, 9, 10, 11, 12
_HEADER = struct.Struct("<IIIQIIIIII")
_COUNT = struct.Struct("<I")
_TOPIC = struct.Struct("<IIqI")
_TOPIC_TYPE = struct.Struct("<II")
_OFFSET = struct.Struct("<IIq")
_PRODUCER = struct.Struct("<QIIIQqI")
_RECORD = struct.Struct("<QIqqQQ")
_HOLD = struct.Struct("<QqqI")
_SHARD = struct.Struct("<II")
_TURN = struct.Struct("<qQQI")
_OPEN = struct.Struct("<Qq")
_PIN = struct.Struct(f"<I{INCARNATION_BYTES}s?")
_CRC = struct.Struct("<I")

NextOffsets = dict[tuple[int, int], int]


class StateParts(NamedTuple):
    """The tables that make up a state. `next_offsets` maps (topic id, queue) to the offset of the queue's next
    message."""

    topics: TopicTable
    next_offsets: NextOffsets
    producers: Producers
    holds: HoldTable
    shards: ShardTable
    consumption: Consumption
    feature_level: int
    access: AccessTable
    timed: TimedTable
    transactions: TransactionTable
    shared: SharedGroups
    message_ids: MessageIds
    placement: PlacementTable
    pinned_leader: PinnedLeader | None
    coordinators: CoordinatorTable


def encode_state(state: StateParts) -> bytes:
    """Encode a state in the format of this module."""
    topics, next_offsets, producers, holds, shards, consumption, feature_level, access = state[:8]
    timed, transactions, shared = state.timed, state.transactions, state.shared
    consumed = encode_consumption(consumption)
    counts = (len(topics), len(next_offsets), len(producers), len(holds), len(shards), len(consumed))
    version = _version(feature_level)
    parts = [_HEADER.pack(MAGIC, version, topics.next_id, topics.changed_at, *counts)]
    parts.extend(map(_topic, topics))
    parts.extend(_OFFSET.pack(*key, offset) for key, offset in sorted(next_offsets.items()))
    for key, sequence in producers:
        parts.append(_producer(key, sequence))
        parts.extend(map(_record, sequence.records))
    parts.extend(map(_hold, holds))
    parts.extend(_shard(shard, shards.founders(shard)) for shard in shards.numbers[1:])
    parts.append(consumed)
    if feature_level:
        parts.append(_COUNT.pack(feature_level))
    if version >= VERSION_2:
        encoded = encode_access(access)
        parts += (_COUNT.pack(len(encoded)), encoded)
    if version >= VERSION_3:
        parts.append(_TURN.pack(*timed.cursor, len(timed.open)))
        parts.extend(_OPEN.pack(*message) for message in sorted(timed.open.items()))
    if version >= VERSION_4:
        for encoded in (encode_transactions(transactions), encode_leases(shared.modes, shared.leases)):
            parts += (_COUNT.pack(len(encoded)), encoded)
    if version >= VERSION_5:
        typed = [topic for topic in topics if topic.type is not TopicType.MIXED]
        parts.append(_COUNT.pack(len(typed)))
        parts.extend(_TOPIC_TYPE.pack(topic.topic_id, topic.type) for topic in typed)
        records = state.message_ids.encoded()
        parts += (_COUNT.pack(len(records)), records)
    if version >= VERSION:
        placed = state.placement.encode()
        parts += (_COUNT.pack(len(placed)), placed)
        parts.append(_PIN.pack(*(state.pinned_leader or (0, b"", False))))
        coordinated = state.coordinators.encode()
        parts += (_COUNT.pack(len(coordinated)), coordinated)
    data = b"".join(parts)
    return data + _CRC.pack(google_crc32c.value(data))


def decode_state(data: bytes, limits: ProducerLimits, latest_level: int = LATEST_LEVEL) -> StateParts:
    """Return the tables of the state that `data` encodes. Raises InternalError if the bytes are damaged, or of an
    unknown format."""
    try:
        version, *counts = _checked_header(data)
        return _Reader(data, limits, version, latest_level).state(*counts)
    except (struct.error, StopIteration, ValueError) as error:
        raise InternalError(f"A snapshot of the state is damaged ({error}): fetch it again.") from error


def _version(feature_level: int) -> int:
    if feature_level >= PLACEMENT:
        return VERSION
    if feature_level >= TOPIC_TYPES:
        return VERSION_5
    if feature_level >= TRANSACTIONS:
        return VERSION_4
    if feature_level >= TIMED:
        return VERSION_3
    if feature_level >= ACCESS_CONTROL:
        return VERSION_2
    return VERSION_1 if feature_level else VERSION_0


def _topic(topic: Topic) -> bytes:
    name = topic.name.encode()
    fixed = _TOPIC.pack(topic.topic_id, topic.queues, topic.created_ms, len(name))
    return fixed + name + _COUNT.pack(topic.opened) + _numbers(topic.shards)


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _producer(key: ProducerQueue, sequence: Sequence) -> bytes:
    stand = (sequence.epoch, sequence.next_sequence, sequence.last_append_time_ms, len(sequence.records))
    return _PRODUCER.pack(*key, *stand)


def _record(record: BatchRecord) -> bytes:
    place = (record.append_time_ms, record.index, record.term)
    return _RECORD.pack(record.first_sequence, record.count, record.base_offset, *place)


def _hold(hold: Hold) -> bytes:
    name = hold.name.encode()
    return _HOLD.pack(hold.index, hold.taken_ms, hold.expires_ms, len(name)) + name


def _shard(shard: int, founders: Mapping[int, bytes]) -> bytes:
    return _SHARD.pack(shard, len(founders)) + _numbers(tuple(founders)) + b"".join(founders.values())


def _checked_header(data: bytes) -> list[int]:
    """Check the magic number, the version and the CRC of an encoded state. Return the version and the numbers that
    follow it in the header."""
    if len(data) < _HEADER.size + _CRC.size:
        raise InternalError(f"A snapshot of the state has only {len(data)} bytes: fetch it again.")
    magic, version, *counts = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise InternalError("These bytes are not a snapshot of the state: fetch it again.")
    if not VERSION_0 <= version <= VERSION:
        raise InternalError(
            f"A snapshot of the state has version {version}, and this program knows versions {VERSION_0} to "
            f"{VERSION}: use the program that wrote the snapshot."
        )
    if (google_crc32c.value(data[: -_CRC.size]),) != _CRC.unpack_from(data, len(data) - _CRC.size):
        raise InternalError("The CRC of a snapshot of the state is wrong: fetch it again.")
    return [version, *counts]


class _Reader:
    """Reads the tables of a state from its bytes, in the order of the format."""

    def __init__(self, data: bytes, limits: ProducerLimits, version: int, latest_level: int) -> None:
        self._data = data
        self._version = version
        self._limits = limits
        self._latest_level = latest_level
        self._at = _HEADER.size

    def state(
        self,
        next_id: int,
        changed_at: int,
        topics: int,
        offsets: int,
        producers: int,
        holds: int,
        shards: int,
        consumed: int,
    ) -> StateParts:
        table = TopicTable([self._topic() for _ in range(topics)], next_id, changed_at)
        next_offsets = {(topic_id, queue): offset for topic_id, queue, offset in self._each(_OFFSET, offsets)}
        known = Producers(self._limits, [self._producer() for _ in range(producers)])
        held = HoldTable([self._hold() for _ in range(holds)])
        known_shards = ShardTable([self._shard() for _ in range(shards)])
        consumption = decode_consumption(self._take(consumed))
        feature_level = 0 if self._version == VERSION_0 else self._feature_level()
        access = self._access() if self._version >= VERSION_2 else AccessTable()
        timed = self._timed() if self._version >= VERSION_3 else TimedTable()
        transactions = self._transactions() if self._version >= VERSION_4 else TransactionTable()
        shared = self._leases() if self._version >= VERSION_4 else SharedGroups()
        message_ids = MessageIds()
        if self._version >= VERSION_5:
            self._give_types(table)
            message_ids = self._message_ids()
        placement = self._placement() if self._version >= VERSION else PlacementTable()
        pinned_leader = self._pinned_leader() if self._version >= VERSION else None
        coordinators = self._coordinators() if self._version >= VERSION else CoordinatorTable()
        if self._at != len(self._data) - _CRC.size:
            raise InternalError(
                f"A snapshot of the state has {len(self._data)} bytes, but its content ends at {self._at}."
            )
        return StateParts(
            table,
            next_offsets,
            known,
            held,
            known_shards,
            consumption,
            feature_level,
            access,
            timed,
            transactions,
            shared,
            message_ids,
            placement,
            pinned_leader,
            coordinators,
        )

    def _access(self) -> AccessTable:
        (size,) = next(self._each(_COUNT, 1))
        return decode_access(self._take(size))

    def _coordinators(self) -> CoordinatorTable:
        (size,) = next(self._each(_COUNT, 1))
        return CoordinatorTable.decode(self._take(size))

    def _pinned_leader(self) -> PinnedLeader | None:
        ((node, incarnation, balances),) = _PIN.iter_unpack(self._take(_PIN.size))
        if not node and any(incarnation):
            raise InternalError("A snapshot of the state has a pinned leader without a node: fetch it again.")
        return PinnedLeader(node, incarnation, balances) if node else None

    def _message_ids(self) -> MessageIds:
        (size,) = next(self._each(_COUNT, 1))
        return MessageIds(self._take(size))

    def _placement(self) -> PlacementTable:
        (size,) = next(self._each(_COUNT, 1))
        return PlacementTable.decode(self._take(size))

    def _give_types(self, topics: TopicTable) -> None:
        (count,) = next(self._each(_COUNT, 1))
        for topic_id, number in [*self._each(_TOPIC_TYPE, count)]:
            if topics.get(topic_id) is None:
                raise InternalError(f"A snapshot of the state has a type of topic {topic_id}, and not the topic.")
            topics.retype(topic_id, TopicType(number))

    def _leases(self) -> SharedGroups:
        (size,) = next(self._each(_COUNT, 1))
        return SharedGroups(*decode_leases(self._take(size)))

    def _timed(self) -> TimedTable:
        through_ms, through_identity, seen, count = next(self._each(_TURN, 1))
        messages = list(self._each(_OPEN, count))
        timed = TimedTable(TimedCursor(through_ms, through_identity, seen))
        timed.deliver([identity for identity, _ in messages], [time_ms for _, time_ms in messages])
        return timed

    def _transactions(self) -> TransactionTable:
        (size,) = next(self._each(_COUNT, 1))
        return decode_transactions(self._take(size))

    def _feature_level(self) -> int:
        (level,) = next(self._each(_COUNT, 1))
        if _version(level) != self._version or level > self._latest_level:
            raise InternalError(
                f"A snapshot of the state has feature level {level}, and this program knows levels up to "
                f"{self._latest_level}: install the version of ledgermq that the other nodes run."
            )
        return level

    def _topic(self) -> Topic:
        topic_id, queues, created_ms, name_bytes = next(self._each(_TOPIC, 1))
        name, opened = self._text(name_bytes), next(self._each(_COUNT, 1))[0]
        return Topic(topic_id, name, self._numbers(queues), created_ms, opened)

    def _shard(self) -> tuple[int, dict[int, bytes]]:
        shard, count = next(self._each(_SHARD, 1))
        return shard, {node: self._take(INCARNATION_BYTES) for node in self._numbers(count)}

    def _numbers(self, count: int) -> tuple[int, ...]:
        return tuple(number for (number,) in self._each(_COUNT, count))

    def _hold(self) -> Hold:
        index, taken_ms, expires_ms, name_bytes = next(self._each(_HOLD, 1))
        return Hold(self._text(name_bytes), index, taken_ms, expires_ms)

    def _text(self, size: int) -> str:
        return self._take(size).decode()

    def _take(self, size: int) -> bytes:
        first, self._at = self._at, self._at + size
        return self._data[first : self._at]

    def _producer(self) -> tuple[ProducerQueue, Sequence]:
        producer_id, topic_id, queue, epoch, next_sequence, last_append_time_ms, count = next(self._each(_PRODUCER, 1))
        records = [BatchRecord(*record) for record in self._each(_RECORD, count)]
        sequence = Sequence(epoch, next_sequence, last_append_time_ms, records)
        return ProducerQueue(producer_id, topic_id, queue), sequence

    def _each(self, layout: struct.Struct, count: int) -> Iterator[tuple[int, ...]]:
        return layout.iter_unpack(self._take(count * layout.size))

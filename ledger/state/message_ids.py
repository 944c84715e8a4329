"""The message ids that this shard has appended within the last minutes, so that a message that is sent again gets the
first result.

A record has the id of a message, the topic for which it counts, and the place and time of the append. Records are in
the order of the log, in one array of bytes, so a snapshot copies them in one piece:

    id 16 bytes | topic id u32 | topic id of the place u32 | queue u32 | offset i64 | append time i64, ms since 1970

The topic is the one that consumers read. The place is in another topic if the message waits in `%TIMED` or `%HALF`. A
record is forgotten `REMEMBER_MS` after its append time, by the append times of later batches with ids, and the oldest
ones when there are more than `MAX_REMEMBERED`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ledger.errors import InternalError

# For how long an id is remembered, by append times.
REMEMBER_MS = 300_000
MAX_REMEMBERED = 200_000
_RECORD = struct.Struct("<16sIIIqq")
_KEY_BYTES = 20
_TIME_AT = 36
_TIME = struct.Struct("<q")
_TOPIC = struct.Struct("<I")
# The forgotten records at the front of the array are removed when they are this part of it.
_REMOVE_BYTES = 1 << 20


class MessageIds:
    """The records of one shard."""

    def __init__(self, records: bytes = b"") -> None:
        """`records` is what `encoded` has returned. Raises InternalError if it is damaged."""
        if len(records) % _RECORD.size or len(records) > MAX_REMEMBERED * _RECORD.size:
            raise InternalError(f"A snapshot of the state has {len(records)} bytes of message ids: fetch it again.")
        self._data = bytearray(records)
        # The bytes at the front of `_data` whose records are forgotten; a multiple of the size of a record.
        self._begin = 0
        # The bytes of records that were removed from the front of `_data`.
        self._removed = 0
        # id and topic id, as bytes -> the position of the newest record, counted with the removed bytes. None: the
        # records were decoded, and the index is not built yet.
        self._positions: dict[bytes, int] | None = None if records else {}

    def __len__(self) -> int:
        return (len(self._data) - self._begin) // _RECORD.size

    def encoded(self) -> bytes:
        return bytes(memoryview(self._data)[self._begin :])

    def prepare(self) -> None:
        """Build the index of decoded records, which takes some 100 ms for all of them. Otherwise the first question
        builds it."""
        if self._positions is None:
            self._positions = self._indexed()

    def remember(
        self, topic_id: int, ids: Sequence[bytes], place: tuple[int, int], base_offset: int, now_ms: int
    ) -> None:
        """Remember the messages of a batch with these ids, which count for the topic `topic_id`. The batch is in
        `place`, a topic id and a queue, from `base_offset` on, and was appended at `now_ms`."""
        self._forget(now_ms, len(ids))
        for number, each in enumerate(ids):
            if self._positions is not None:
                self._positions[each + _TOPIC.pack(topic_id)] = self._removed + len(self._data)
            self._data += _RECORD.pack(each, topic_id, *place, base_offset + number, now_ms)

    def known(self, topic_id: int, ids: Sequence[bytes], now_ms: int) -> Iterator[tuple[int, RememberedMessage]]:
        """Yield the places in `ids` of those that are remembered for the topic at `now_ms`, with their records."""
        self.prepare()
        assert self._positions is not None
        topic = _TOPIC.pack(topic_id)
        for number, each in enumerate(ids):
            position = self._positions.get(each + topic)
            if position is None:
                continue
            record = RememberedMessage(*_RECORD.unpack_from(self._data, position - self._removed))
            if record.append_time_ms + REMEMBER_MS > now_ms:
                yield number, record

    def _forget(self, now_ms: int, more: int) -> None:
        """Forget the records that are too old at `now_ms`, and make room for `more` records."""
        data, begin = self._data, self._begin
        # A batch has fewer messages than may be remembered.
        least = len(data) - (MAX_REMEMBERED - more) * _RECORD.size
        while begin < len(data) and (
            begin < least or _TIME.unpack_from(data, begin + _TIME_AT)[0] + REMEMBER_MS <= now_ms
        ):
            if self._positions is not None:
                key = bytes(data[begin : begin + _KEY_BYTES])
                if self._positions.get(key) == self._removed + begin:
                    del self._positions[key]
            begin += _RECORD.size
        self._begin = begin
        if begin >= _REMOVE_BYTES or begin == len(data):
            del data[:begin]
            self._removed += begin
            self._begin = 0

    def _indexed(self) -> dict[bytes, int]:
        data, removed = bytes(self._data), self._removed
        places = range(self._begin, len(data), _RECORD.size)
        return {data[at : at + _KEY_BYTES]: removed + at for at in places}


class RememberedMessage(NamedTuple):
    """One record. The module explains the fields."""

    id: bytes
    topic_id: int
    place_topic_id: int
    queue: int
    offset: int
    append_time_ms: int

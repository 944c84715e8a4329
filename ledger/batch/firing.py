"""Makes batches of messages that wait: the batch that delivers messages of timed batches, the batch that copies them,
and the batch of dead letters of a half batch.

Keys, look-up keys, tags and headers are taken over as bytes, and nothing is decoded to text. So a message with bytes
that are not UTF-8 reaches its target as it would without a delivery time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ledger.batch.columns import BinaryColumn, ColumnWriter
from ledger.batch.decode import Batch
from ledger.batch.encode import check_counts, put_look_up_keys, sealed
from ledger.batch.header import COPIED, DECIDED, FIRED, HEADERS, KEYS, LOOK_UP_KEYS, TAGS, TIMED, TIMESTAMPS
from ledger.batch.timed import FiredColumn, TimedColumn, encoded_identities
from ledger.batch.transactions import DecidedColumn
from ledger.codec import Codec
from ledger.errors import CorruptBatchError, InvalidArgumentError
from ledger.hashing import NO_HASH, hashes_of_keys
from ledger.timed import DELIVER_AT

# The producer id of batches that the broker makes.
_BROKER = 0

_NAME = DELIVER_AT.encode()

_Item = TypeVar("_Item")
_RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait in timed batches, in the order that they will have in the new batch.

    Message i of the new batch is message `places[i]` of `batches[sources[i]]`. Its identity is `identities[i]`, and its
    delivery time is `times_ms[i]`, in ms since 1970.
    """

    batches: Sequence[Batch]
    sources: NDArray[np.int64]
    places: NDArray[np.int64]
    identities: NDArray[np.uint64]
    times_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)


def firing_batch(
    messages: Waiting, *, topic_id: int, queue: int, first_sequence: int, codec: Codec = Codec.NONE
) -> bytes:
    """Return the batch that delivers the messages to this target queue. The messages keep value, key, look-up keys,
    tag, headers and timestamp, and get the header DELIVER_AT.

    Raises CorruptBatchError if a batch does not have a message at one of the places, and InvalidArgumentError if the
    messages are too many or too large for one batch.
    """
    picked = _Picked(messages)
    times: list[int] = messages.times_ms.tolist()
    headers = [
        [*(pair for pair in own if pair[0] != _NAME), (_NAME, b"%d" % time)]
        for own, time in zip(picked.headers(), times, strict=True)
    ]
    columns = [FiredColumn(messages.identities, messages.times_ms).encoded()]
    return picked.encoded(headers, FIRED, columns, codec, topic_id, queue, first_sequence)


def copying_batch(
    messages: Waiting,
    *,
    topic_id: int,
    queue: int,
    first_sequence: int,
    target_topic_id: int,
    target_queue: int,
    codec: Codec = Codec.NONE,
) -> bytes:
    """Return the batch that copies waiting messages of one target queue within the queue `queue` of `%TIMED`, whose
    topic id is `topic_id`. Raises the errors of `firing_batch`."""
    picked = _Picked(messages)
    timed = TimedColumn(target_topic_id, target_queue, messages.times_ms)
    columns = [timed.encoded(), encoded_identities(messages.identities)]
    return picked.encoded(picked.headers(), TIMED | COPIED, columns, codec, topic_id, queue, first_sequence)


def dead_letter_batch(
    half: Batch,
    column: DecidedColumn,
    *,
    replaced: Collection[str],
    headers: Sequence[tuple[str, bytes]],
    topic_id: int,
    queue: int,
    first_sequence: int,
) -> bytes:
    """Return the batch that has the messages of a half batch as dead letters. Each message loses its headers with the
    names `replaced`, and gets `headers`. Raises InvalidArgumentError if the messages are too large for one batch."""
    count = len(half)
    nothing = np.zeros(count, np.int64)
    picked = _Picked(Waiting([half], nothing, np.arange(count), nothing.astype(np.uint64), nothing))
    names = {name.encode() for name in replaced}
    added = [(name.encode(), value) for name, value in headers]
    made = [[*(pair for pair in own if pair[0] not in names), *added] for own in picked.headers()]
    codec = Codec(half.header.codec)
    return picked.encoded(made, DECIDED, [column.encoded()], codec, topic_id, queue, first_sequence)


class _Picked:
    """Reads the columns of the messages, batch by batch."""

    def __init__(self, messages: Waiting) -> None:
        check_counts(len(messages), sources=messages.sources, identities=messages.identities, times=messages.times_ms)
        self._count = len(messages)
        # For each batch: the places of its messages, and the numbers of these messages in the new batch.
        self._parts: list[tuple[Batch, list[int], list[int]]] = []
        by_source: dict[int, tuple[list[int], list[int]]] = {}
        for number, (source, place) in enumerate(zip(messages.sources.tolist(), messages.places.tolist(), strict=True)):
            places, numbers = by_source.setdefault(source, ([], []))
            places.append(place)
            numbers.append(number)
        for source, (places, numbers) in by_source.items():
            if not 0 <= source < len(messages.batches):
                raise InvalidArgumentError(f"There is no batch {source}: {len(messages.batches)} were given.")
            batch = messages.batches[source]
            if wrong := [place for place in places if not 0 <= place < len(batch)]:
                raise CorruptBatchError(f"A batch of {len(batch)} messages has no message {wrong[0]}, counted from 0.")
            self._parts.append((batch, places, numbers))

    def headers(self) -> list[_RawHeaders]:
        return self._gathered(_headers_at)

    def encoded(
        self,
        headers: list[_RawHeaders],
        present: int,
        columns: list[bytes],
        codec: Codec,
        topic_id: int,
        queue: int,
        first_sequence: int,
    ) -> bytes:
        """Return the bytes of the new batch. `present` and `columns` are its columns of delivery times."""
        payload = ColumnWriter()
        largest = payload.binary(self._gathered(lambda batch, places: batch.columns.bodies.some(places)))
        front: list[bytes | memoryview] = []
        if (keys := _optional(payload, self._gathered(lambda batch, at: _strings(batch.columns.keys, at)))) is not None:
            present |= KEYS
            front.append(keys)
        if (tags := _optional(payload, self._gathered(lambda batch, at: _strings(batch.columns.tags, at)))) is not None:
            present |= TAGS
            front.insert(0, tags)  # tag hashes come first
        if any(headers):
            present |= HEADERS
            payload.encoded_headers(headers)
        times = np.array(self._gathered(_timestamps_at), np.int64)
        base = times[0]
        if (times != base).any():
            present |= TIMESTAMPS
            payload.buffer((times - base).astype("<i8").data)
        look_up_keys = self._gathered(_look_up_keys_at)
        if any(look_up_keys):
            present |= LOOK_UP_KEYS
            front.append(put_look_up_keys(payload, look_up_keys))
        return sealed(
            payload,
            [*front, *columns],
            codec,
            columns=present,
            count=self._count,
            largest=largest,
            epoch=0,
            topic_id=topic_id,
            queue=queue,
            producer_id=_BROKER,
            first_sequence=first_sequence,
            base_timestamp_ms=int(base),
        )

    def _gathered(self, read: Callable[[Batch, list[int]], Sequence[_Item]]) -> list[_Item]:
        """Return what `read` returns for the messages of each batch, in the order of the new batch."""
        items: dict[int, _Item] = {}
        for batch, places, numbers in self._parts:
            items.update(zip(numbers, read(batch, places), strict=True))
        return list(map(items.__getitem__, range(self._count)))


def _headers_at(batch: Batch, places: list[int]) -> list[_RawHeaders]:
    column = batch.columns.headers
    return [[] for _ in places] if column is None else column.some(places)


def _timestamps_at(batch: Batch, places: list[int]) -> list[int]:
    deltas, base = batch.columns.timestamp_deltas, batch.header.base_timestamp_ms
    if deltas is None:
        return [base] * len(places)
    return list((deltas[places] + np.int64(base)).tolist())  # wraps around, as `Batch.timestamps_ms` does


def _look_up_keys_at(batch: Batch, places: list[int]) -> list[tuple[bytes, ...]]:
    column = batch.columns.look_up_keys
    return [()] * len(places) if column is None else column.some(places)


def _strings(column: BinaryColumn | None, places: list[int]) -> list[bytes | None]:
    return [None] * len(places) if column is None else column.some_optional(places)


def _optional(payload: ColumnWriter, strings: list[bytes | None]) -> memoryview | None:
    """Append a column of keys or tags to the payload, and return their hashes. If no string exists, append nothing and
    return None."""
    there = np.fromiter((one is not None for one in strings), np.bool_, len(strings))
    if not there.any():
        return None
    known = [one or b"" for one in strings]
    hashes = hashes_of_keys(known)
    hashes[~there] = NO_HASH
    payload.validity(there)
    payload.binary(known)
    return hashes.data

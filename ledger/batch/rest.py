"""Encodes a part of a producer's batch again, without the messages that a broker has already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ledger.batch.decode import Batch
from ledger.batch.encode import encode
from ledger.batch.header import HEADERS, KEYS, LOOK_UP_KEYS, TAGS, TIMESTAMPS, message_ids
from ledger.batch.timed import timed_column
from ledger.batch.transactions import half_column
from ledger.codec import Codec

_Item = TypeVar("_Item")


def rest_of(data: bytes, places: Sequence[int]) -> bytes:
    """Return the bytes of a batch with only the messages at `places` of the producer's batch `data`, in this order, and
    with all of their columns."""
    batch = Batch(data, check_crc=False)
    header = batch.header
    timed = timed_column(data, header)

    def some(column: Sequence[_Item]) -> list[_Item]:
        return [column[place] for place in places]

    def if_there(bit: int, column: Sequence[_Item]) -> list[_Item] | None:
        return some(column) if header.columns & bit else None

    ids = message_ids(data, header)
    return encode(
        some(batch.values()),
        topic_id=header.topic_id,
        queue=header.queue,
        producer_id=header.producer_id,
        epoch=header.epoch,
        first_sequence=header.first_sequence,
        base_timestamp_ms=header.base_timestamp_ms,
        keys=if_there(KEYS, batch.keys()),
        tags=if_there(TAGS, batch.tags()),
        headers=if_there(HEADERS, batch.headers()),
        timestamps_ms=if_there(TIMESTAMPS, batch.timestamps_ms()),
        look_up_keys=if_there(LOOK_UP_KEYS, batch.look_up_keys()),
        timed=None if timed is None else replace(timed, times_ms=timed.times_ms[list(places)]),
        half=half_column(data, header),
        ids=None if ids is None else some(ids),
        codec=Codec(header.codec),
    )

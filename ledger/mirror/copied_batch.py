"""Makes the batch that a mirror sends to the target from a batch of the source.

The messages are taken over as bytes, compressed as they are. Only the header changes, and the columns that tell where
messages have waited go: the target has not delivered a delayed message, and has not decided a transaction.
"""

from __future__ import annotations

from dataclasses import replace

from ledger.batch.header import EXCLUSIVE_COLUMNS, HEADER_BYTES, MESSAGE_ID_BYTES, MESSAGE_IDS, BatchHeader, seal
from ledger.batch.rest import rest_of
from ledger.mirror.numbering import CopyNumber


def copied_batch(data: bytes, number: CopyNumber, *, topic_id: int, queue: int, with_ids: bool = True) -> bytes:
    """Return the copy of a whole batch for this queue. Without `with_ids`, the messages lose their message ids."""
    header = BatchHeader.parse(data)
    view = memoryview(data)
    payload = header.payload_position
    has_ids = bool(header.columns & MESSAGE_IDS)
    ids = view[payload - MESSAGE_ID_BYTES * header.count : payload] if has_ids and with_ids else view[:0]
    columns = header.columns & ~(EXCLUSIVE_COLUMNS | (0 if with_ids else MESSAGE_IDS))
    copy = replace(
        header,
        columns=columns,
        size=header.hashes_end + len(ids) + len(data) - payload,
        topic_id=topic_id,
        queue=queue,
        producer_id=number.producer_id,
        epoch=number.epoch,
        first_sequence=number.first_sequence,
    )
    return seal(copy.pack(), view[HEADER_BYTES : header.hashes_end], ids, view[payload:])


def end_of_copy(copy: bytes, first: int) -> bytes:
    """Return a copied batch without its messages before place `first`, which the target has already. The numbers of the
    copy must be those of the first message that remains."""
    return rest_of(copy, range(first, BatchHeader.parse(copy).count))


def has_message_ids(data: bytes) -> bool:
    """Return True if the messages of the batch have message ids."""
    return bool(BatchHeader.parse(data).columns & MESSAGE_IDS)

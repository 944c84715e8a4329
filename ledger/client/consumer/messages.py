"""Makes messages from fetched batches.

For speed, the columns of a batch are changed to lists, and the lists to messages, by loops that run in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from ledger.batch import Batch
from ledger.client.records import Message
from ledger.errors import CorruptBatchError, LedgerError, UnsupportedBatchError

# mypy takes `Message._make` for a function that is generic in the type of the value.
_make: Callable[[Iterable[Any]], Message] = Message._make


def decoded(body: bytes, topic: str, queue: int, base_offset: int, *, check_crc: bool = True) -> Batch:
    """Decode a batch and return it. Raises CorruptBatchError if the batch is damaged, and UnsupportedBatchError if this
    program cannot read its version or codec. The message of the error names the topic, the queue and the offset."""
    place = f'The batch at offset {base_offset} of queue {queue} of topic "{topic}" cannot be read: '
    try:
        return Batch(body, check_crc=check_crc)
    except UnsupportedBatchError as error:  # another node has the same bytes
        raise UnsupportedBatchError(f"{place}{error}") from error
    except LedgerError as error:
        raise CorruptBatchError(f"{place}{error} Read it from another node, or seek past it.") from error


def messages_of(
    batch: Batch, *, topic: str, queue: int, base_offset: int, term: int, append_time_ms: int, skip: int = 0
) -> list[Message]:
    """Return all messages of a batch except the first `skip` messages. `base_offset` is the offset of the first message
    of the stored batch."""
    whole = batch.places is None
    offsets = range(base_offset, base_offset + len(batch)) if whole else batch.offsets_from(base_offset).tolist()
    columns = zip(
        repeat(topic),
        repeat(queue),
        offsets[skip:],
        batch.timestamps_ms()[skip:],
        repeat(append_time_ms),
        batch.keys()[skip:],
        batch.values()[skip:],
        batch.tags()[skip:],
        map(tuple, batch.headers()[skip:]),
        repeat(term),
        batch.look_up_keys()[skip:],
    )
    return list(map(_make, columns))

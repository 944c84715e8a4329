"""Hashes the contents of messages that wait, are copied, or are delivered: value, key, tag, headers, look-up keys and
timestamp. The hash of a message is the same in all these batches."""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from ledger.batch import Batch
from ledger.errors import LedgerError
from ledger.timed import DELIVER_AT
from ledger.validation.spans.batches import body_of
from ledger.validation.spans.block import SpanBlock

# The hash of a message that cannot be decoded. Nothing is compared with it.
NOT_KNOWN = 0

_DELIVER_AT = DELIVER_AT.encode()
_BITS = (1 << 64) - 1


def message_contents(block: SpanBlock, fact: np.void) -> NDArray[np.uint64]:
    """Return a hash for each message of a batch; NOT_KNOWN for all of them if the batch cannot be decoded. The header
    that a delivery adds is left out."""
    try:
        batch = Batch(body_of(block, fact), check_crc=False)
        return np.fromiter(_hashes(batch), np.uint64, len(batch))
    except LedgerError:
        return np.full(int(fact["count"]), NOT_KNOWN, np.uint64)


def _hashes(batch: Batch) -> list[int]:
    values, timestamps = batch.values(), batch.timestamps_ms()
    columns, places = batch.columns, range(len(batch))
    if all(each is None for each in (columns.keys, columns.tags, columns.headers, columns.look_up_keys)):
        return [xxhash.xxh3_64_intdigest(value, at & _BITS) for value, at in zip(values, timestamps, strict=True)]
    nothing: list[None] = [None] * len(batch)
    keys = nothing if columns.keys is None else columns.keys.optional_strings()
    tags = nothing if columns.tags is None else columns.tags.optional_strings()
    headers = [[] for _ in places] if columns.headers is None else columns.headers.some(places)
    look_up_keys = [()] * len(batch) if columns.look_up_keys is None else columns.look_up_keys.lists()
    found = []
    for value, at, key, tag, pairs, looked_up in zip(
        values, timestamps, keys, tags, headers, look_up_keys, strict=True
    ):
        own = [pair for pair in pairs if pair[0] != _DELIVER_AT]
        if key is None and tag is None and not own and not looked_up:
            found.append(xxhash.xxh3_64_intdigest(value, at & _BITS))
        else:
            also = xxhash.xxh3_64_intdigest(repr((key, tag, own, looked_up, at)).encode())
            found.append(xxhash.xxh3_64_intdigest(value, also))
    return found

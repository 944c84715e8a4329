"""Encodes the transactions of a shard as bytes, for `encoding.py`.

number of waiting half batches, of commits that are being carried out, and of outcomes
each half batch      number, place, transaction, append time, decision shard, topic id, queue, messages, bytes,
                     unknown answers, bytes of the group; the group       sorted by number
each commit          transaction, number of half batches; shard and number of each, in the order of the commit
                                                                          in the order of the commits
outcomes             the transactions, the append times, the outcomes     in the order of the decisions
"""

from __future__ import annotations

import struct

import numpy as np

from ledger.state.transaction_table import EndedTransaction, HalfBatch, HalfName, TransactionTable
from ledger.transactions import TransactionOutcome

_COUNTS = struct.Struct("<III")
_HALF = struct.Struct("<QQQqIIIIIII")
_COMMIT = struct.Struct("<QI")
_NAME = struct.Struct("<IQ")
# Of one outcome.
_OUTCOME_BYTES = 17


def encode_transactions(table: TransactionTable) -> bytes:
    """Encode a table in the format of this module."""
    parts = [_COUNTS.pack(len(table.waiting), len(table.committed), len(table.outcomes))]
    parts.extend(_half(half) for _, half in sorted(table.waiting.items()))
    for transaction, halves in table.committed.items():
        parts.append(_COMMIT.pack(transaction, len(halves)))
        parts.extend(_NAME.pack(*half) for half in halves)
    count = len(table.outcomes)
    ended = table.outcomes.values()
    parts.append(np.fromiter(table.outcomes, "<u8", count).tobytes())
    parts.append(np.fromiter((each.at_ms for each in ended), "<i8", count).tobytes())
    parts.append(np.fromiter((each.outcome for each in ended), "u1", count).tobytes())
    return b"".join(parts)


def decode_transactions(data: bytes) -> TransactionTable:
    """Return the table that `data` encodes. Raises struct.error, ValueError or InternalError if the bytes are
    damaged."""
    table = TransactionTable()
    waiting, committed, outcomes = _COUNTS.unpack_from(data)
    at = _COUNTS.size
    for _ in range(waiting):
        number, place, transaction, since_ms, shard, topic_id, queue, count, size, unknowns, text = _HALF.unpack_from(
            data, at
        )
        at += _HALF.size
        group = data[at : at + text].decode("ascii")
        at += text
        table.put(HalfBatch(number, place, shard, transaction, topic_id, queue, group, count, size, since_ms, unknowns))
    for _ in range(committed):
        transaction, count = _COMMIT.unpack_from(data, at)
        at += _COMMIT.size
        names = [HalfName(*name) for name in _NAME.iter_unpack(data[at : at + count * _NAME.size])]
        if not count or len(names) != count:
            raise ValueError("a commit without half batches")
        at += count * _NAME.size
        table.put_committed(transaction, names)
    if len(data) != at + outcomes * _OUTCOME_BYTES:
        raise ValueError(f"{len(data) - at} bytes for {outcomes} outcomes")
    numbers = np.frombuffer(data, "<u8", outcomes, at).tolist()
    times = np.frombuffer(data, "<i8", outcomes, at + 8 * outcomes).tolist()
    kinds = np.frombuffer(data, "u1", outcomes, at + 16 * outcomes).tolist()
    for number, at_ms, kind in zip(numbers, times, kinds, strict=True):
        table.put_outcome(number, EndedTransaction(TransactionOutcome(kind), at_ms))
    return table


def _half(half: HalfBatch) -> bytes:
    group = half.group.encode()
    fixed = _HALF.pack(
        half.number,
        half.place,
        half.transaction,
        half.since_ms,
        half.shard,
        half.topic_id,
        half.queue,
        half.count,
        half.size,
        half.unknowns,
        len(group),
    )
    return fixed + group

"""Transactions: the topic in which their messages wait, the limits, and the ids that name them.

A message of a transaction waits in a *half batch* of the topic `%HALF`, in the queue that is in the shard of its target
queue. The first half batch begins the transaction, and its shard is the transaction's *decision shard*. The number of a
half batch is its offset in the queue of `%HALF`. The number of a transaction is that of its first half batch.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from ledger.checked_text import CheckedText
from ledger.errors import InvalidArgumentError

# The topic in which half batches wait. It has one queue in each shard.
HALF_TOPIC = "%HALF"

# Header: the id of the transaction of a dead letter.
TRANSACTION = "%TRANSACTION"

# Numbers of half batches are offsets.
MAX_HALF = (1 << 63) - 1
# Stands for a half batch in a field of 64 bits without a sign.
NO_HALF = (1 << 64) - 1

# The half batches of one transaction.
MAX_HALVES = 1_000
# The half batches that wait in one shard, and those of one topic: who may send to one topic cannot take all.
MAX_WAITING_HALVES = 100_000
MAX_WAITING_HALVES_OF_A_TOPIC = 50_000
# The half batches of all commits of one shard that are being carried out.
MAX_COMMITTED_HALVES = 100_000
# How long, and for how many transactions of one shard, the outcome is known.
OUTCOME_MS = 24 * 60 * 60 * 1000
MAX_OUTCOMES = 100_000


class TransactionOutcome(IntEnum):
    """How a transaction ended."""

    COMMITTED = 1
    ROLLED_BACK = 2
    # No producer knew the outcome. The messages are in the dead-letter topic of the producer group.
    DEAD_LETTERS = 3

    @property
    def phrase(self) -> str:
        """Return the outcome for a sentence that begins with "the transaction was"."""
        return _PHRASES[self]


_PHRASES = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ROLLED_BACK: "rolled back",
    TransactionOutcome.DEAD_LETTERS: "moved to the dead letters of its producer group",
}

# topic id of the first message u32 | decision shard u32 | number u64 | 0 u16
_ID = CheckedText("x1_", struct.Struct("<IIQH"))


@dataclass(frozen=True, slots=True)
class TransactionId:
    """Names one transaction. `topic_id` is the id of the topic of its first message."""

    topic_id: int
    shard: int
    number: int

    def __str__(self) -> str:
        """Return the id as a printable text of letters, digits, - and _."""
        return _ID.encode(self.topic_id, self.shard, self.number, 0)

    @classmethod
    def parse(cls, text: object) -> TransactionId:
        """Return the id that `text`, a result of `str`, contains. Raises InvalidArgumentError for any other text."""
        numbers = _ID.decode(text)
        if numbers is None:
            raise _no_id(text)
        topic_id, shard, number, zero = numbers
        if number > MAX_HALF or zero:
            raise _no_id(text)
        return cls(topic_id, shard, number)


def _no_id(text: object) -> InvalidArgumentError:
    shown = text[:64] if isinstance(text, str) else text
    return InvalidArgumentError(f"{shown!r} is not the id of a transaction: pass the `id` of a transaction, unchanged.")

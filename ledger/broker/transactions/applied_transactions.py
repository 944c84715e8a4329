"""What the committed batches of transactions do to the state of a replica.

half batch of `%HALF`          it waits for the end of its transaction
copy of a half batch           the half batch is found in its new place
decided batch of any topic     its half batch is settled
"""

from __future__ import annotations

from typing import Protocol

from ledger.batch import BatchHeader, decided_column, half_column
from ledger.state import PreparedHalf, Settlement, State
from store import Header


class TransactionStep(Protocol):
    """What a committed batch does to the transactions of its shard. `check` comes before all changes of the replica,
    `apply` after them."""

    def check(self, state: State) -> None:
        """Raise InternalError if the batch contradicts the state."""

    def apply(self, state: State) -> None:
        """Change the state. Raises InternalError like `check`."""


class PreparedStep:
    """A half batch of the entry `header`. Implements TransactionStep."""

    def __init__(self, half: PreparedHalf, header: Header) -> None:
        self._half = half
        self._header = header

    def check(self, state: State) -> None:
        state.check_half(self._half, self._header.topic_id, self._header.index)

    def apply(self, state: State) -> None:
        state.apply_half(self._half, self._header.topic_id, self._header.index)


class SettledStep:
    """A decided batch of the entry `index`. Implements TransactionStep."""

    def __init__(self, settled: Settlement, index: int) -> None:
        self._settled = settled
        self._index = index

    def check(self, state: State) -> None:
        state.check_settlement(self._settled, self._index)

    def apply(self, state: State) -> None:
        state.apply_settlement(self._settled, self._index)


def transaction_step(header: Header, batch: BatchHeader, body: memoryview) -> TransactionStep | None:
    """Return what the batch of this entry does to transactions. Return None if it does nothing to them. Raises
    CorruptBatchError."""
    if (half := prepared_half(header, batch, body)) is not None:
        return PreparedStep(half, header)
    if (decided := decided_column(body, batch)) is not None:
        settled = Settlement(
            topic_id=header.topic_id,
            queue=header.queue,
            half=decided.half,
            transaction=decided.transaction,
            shard=decided.shard,
            decides=decided.decides,
            dead=decided.dead,
            append_time_ms=header.append_time_ms,
        )
        return SettledStep(settled, header.index)
    return None


def prepared_half(header: Header, batch: BatchHeader, body: memoryview) -> PreparedHalf | None:
    """Return what the half batch of this entry says, and None for any other batch. Raises CorruptBatchError."""
    column = half_column(body, batch)
    if column is None:
        return None
    return PreparedHalf(
        topic_id=column.topic_id,
        queue=column.queue,
        shard=column.shard,
        group=column.group,
        transaction=column.transaction,
        copy_of=column.copy_of,
        half_queue=header.queue,
        number=header.base_offset,
        count=batch.count,
        size=batch.size,
        append_time_ms=header.append_time_ms,
    )

"""Keeps the timed index of one replica in step with the entries that the replica applies.

batch of `%TIMED`           its messages wait: they are put into the index
copying batch of `%TIMED`   the index finds the messages in their new place
firing batch of a topic     the state knows that its messages were delivered; the index stays as it is
SettleTimed                 buckets of which all messages are settled leave the index
CancelTimed                 messages that still wait leave the index
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ledger.batch import BatchHeader, copied_identities, fired_column, timed_column
from ledger.state import State
from ledger.state.timed_table import TimedMessage, UndeliveredMessages
from ledger.timed import MAX_DELIVERY_MS
from store import Header, TimedIndex, TimedIndexCursor, TimedKey
from store.index.timed_unit import WaitingTotal


class AppliedTimed:
    """The timed index of one replica, after the last entry that the replica has applied."""

    def __init__(self, index: TimedIndex) -> None:
        self.index = index
        # Called after messages were put, and when this node begins or stops to lead.
        self.on_news: Callable[[], None] = lambda: None

    def put(self, header: Header, batch: BatchHeader, body: memoryview) -> None:
        """Put the messages of a committed batch of `%TIMED` into the index. The call may be repeated."""
        timed = timed_column(body, batch)
        if timed is None:
            return  # a leader appends no such batch
        places = np.arange(batch.count, dtype=np.uint32)
        shares = np.full(batch.count, -(-max(header.size, batch.plain_size) // batch.count), np.uint32)
        copied = copied_identities(body, batch)
        if copied is None:
            identities = places.astype(np.uint64) + np.uint64(header.base_offset)
            self.index.put(identities, timed.times_ms, header.position, header.size, places, shares)
        else:
            self.index.replace(copied, timed.times_ms, header.position, header.size, places, shares)
        self.on_news()

    def cancel(self, asked: UndeliveredMessages) -> tuple[bool, ...]:
        """Cancel the messages that were not delivered, and return for each message whether it was cancelled now."""
        waiting = [item for item, may_wait in zip(asked.items, asked.may_wait, strict=True) if may_wait]
        cancelled = iter(self.index.cancel_all([_key(item) for item in waiting]))
        return tuple(may_wait and next(cancelled) is not None for may_wait in asked.may_wait)

    def settle(self, state: State) -> None:
        """Drop the buckets of which the cursor settles all messages."""
        self.index.drop_settled(cursor_of(state))

    def waiting(self, state: State) -> WaitingTotal:
        """Return how many messages wait, and their bytes. Messages of a turn that has not ended are included."""
        return self.index.count_before(MAX_DELIVERY_MS + 1, cursor_of(state))


class FiredMessages:
    """The waiting messages that a committed firing batch delivers. `check` comes before all changes of the replica,
    `apply` after them."""

    def __init__(self, identities: list[int], times_ms: list[int], index: int) -> None:
        self._identities = identities
        self._times_ms = times_ms
        self._index = index

    @staticmethod
    def of(body: memoryview, batch: BatchHeader, index: int) -> FiredMessages | None:
        """Return the delivery of the batch in entry `index`. Return None if the batch is no firing batch. Raises
        CorruptBatchError."""
        fired = fired_column(body, batch)
        return None if fired is None else FiredMessages(fired.identities.tolist(), fired.times_ms.tolist(), index)

    def check(self, state: State) -> None:
        """Raise InternalError if the batch contradicts the state."""
        state.check_delivery(self._identities, self._times_ms, self._index)

    def apply(self, state: State) -> None:
        """Note in the state that the messages were delivered. Raises InternalError like `check`."""
        state.apply_delivery(self._identities, self._times_ms, self._index)


def cursor_of(state: State) -> TimedIndexCursor:
    """Return how far the shard has delivered, as the timed index takes it."""
    return TimedIndexCursor(*state.timed.cursor)


def _key(item: TimedMessage) -> TimedKey:
    return TimedKey(item.delivery_ms, item.identity)

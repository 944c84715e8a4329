"""The message ids of the leader's own uncommitted batches.

    is_coming  says whether a batch with this id is on its way
    admit      adds the ids of a batch, before the batch is appended
    settle     drops the ids of the batch, when the batch is applied: then the applied state remembers them

If the leader stops leading, all of them are dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from ledger.state.projected_timed import PendingEntry


class ProjectedMessageIds:
    """The ids of batches that are not applied yet."""

    def __init__(self) -> None:
        # In the order of their appending: the batch, and (topic id, id) of each message.
        self._pending: deque[tuple[PendingEntry, list[tuple[int, bytes]]]] = deque()
        self._coming: Counter[tuple[int, bytes]] = Counter()

    def is_coming(self, topic_id: int, message_id: bytes) -> bool:
        return (topic_id, message_id) in self._coming

    def admit(self, entry: PendingEntry, topic_id: int, ids: Sequence[bytes]) -> None:
        """Add the ids of a batch, which count for the topic. Call it in the same turn of the event loop in which the
        batch is proposed, in the order of the proposals."""
        keys = [(topic_id, each) for each in ids]
        self._pending.append((entry, keys))
        self._coming.update(keys)

    def settle(self, applied: int) -> None:
        """Drop the ids of all batches up to the index `applied`, which the state contains."""
        while self._pending and 0 < self._pending[0][0].index <= applied:
            for key in self._pending.popleft()[1]:
                del self._coming[key]

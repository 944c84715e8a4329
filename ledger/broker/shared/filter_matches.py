"""Which messages of a queue match the filter of a shared group, as far as this leader has evaluated it.

messages of the queue      | in the window | evaluated: yes no no yes | not evaluated yet ...    end of the queue
                                           ^ begin                    ^ end
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledger.filters.parse import MessageFilter
from ledger.state import TopicQueueId

Matches = NDArray[np.bool_]


class FilterMatches:
    """The results of one filter for the messages [begin, end) of one queue."""

    def __init__(self, wanted: MessageFilter) -> None:
        self.filter = wanted
        self.begin = 0
        self._results: Matches = np.zeros(0, np.bool_)

    @property
    def end(self) -> int:
        return self.begin + len(self._results)

    @property
    def count(self) -> int:
        """How many of the evaluated messages match."""
        return int(np.count_nonzero(self._results))

    def of(self, first: int, size: int) -> Matches:
        """Return the results of the messages [first, first + size), which must have been evaluated."""
        assert self.begin <= first <= first + size <= self.end
        return self._results[first - self.begin :][:size]

    def begin_at(self, offset: int) -> None:
        """Forget the results of messages before this offset."""
        if not self.begin <= offset <= self.end:
            self._results = self._results[:0]
        elif offset > self.begin:
            self._results = self._results[offset - self.begin :].copy()
        self.begin = offset

    def append(self, results: Matches) -> None:
        """Add the results of the next messages."""
        self._results = np.concatenate((self._results, results))


class KnownMatches:
    """The results of the filters of all groups of one shard."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, TopicQueueId], FilterMatches] = {}

    def of(
        self, consumer_group: str, queue: TopicQueueId, wanted: MessageFilter | None, begin: int
    ) -> FilterMatches | None:
        """Return the results of the messages from `begin` on. Return None if `wanted` is: all messages match."""
        if wanted is None:
            return None
        known = self._known.get((consumer_group, queue))
        if known is None or known.filter != wanted:
            known = self._known[consumer_group, queue] = FilterMatches(wanted)
        known.begin_at(begin)
        return known

    def forget(self, consumer_group: str) -> None:
        """Forget the results of a group."""
        self._known = {key: known for key, known in self._known.items() if key[0] != consumer_group}

    def clear(self) -> None:
        """Forget all results."""
        self._known.clear()

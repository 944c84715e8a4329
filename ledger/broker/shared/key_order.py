"""The messages that a shared group with order by key can lease in this turn of the leader.

    open messages of the window    a  b  a  -  b  c         - is a message without a key
    can be leased                  ^  ^     ^     ^         the first open message of each key, if it is free

A message is open until it is settled. So messages with one key are handed out one after another, in the order of their
offsets, and a message that fails holds up no other key. The hashes of keys are read from the log and kept, so a new
leader reads at most one window again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledger.batch import BatchHeader, key_hashes
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.log_batches import batch_entry_at
from ledger.broker.shared.lease_clock import are_free
from ledger.broker.shared.queue_choice import ByteBudget, Choice, ChoiceFacts, Chosen, gaps, message_sizes, ranges
from ledger.errors import CorruptBatchError
from ledger.state import TopicQueueId

# Entries of one queue that a turn reads for their keys.
MAX_ENTRIES = 1_024
# Ranges of unwanted messages that one turn skips in one queue.
MAX_SKIPS = 1_000
# So many messages are looked at first, and twice as many if they have too few that can be leased.
_FIRST_LOOK = 1_024

Hashes = NDArray[np.uint64]


class KeyHashes:
    """The hashes of the keys of the messages [begin, end) of one queue; 0: no key."""

    def __init__(self, replica: BrokerReplica, queue: TopicQueueId) -> None:
        self._replica = replica
        self._queue = queue
        self._begin = 0
        self._hashes: Hashes = np.zeros(0, np.uint64)

    def of(self, begin: int, end: int) -> Hashes:
        """Return the hashes from `begin` on, up to `end` or as far as one turn may read. Raises CorruptBatchError if
        the log or its index is damaged, and StoreError."""
        if not self._begin <= begin <= self._begin + len(self._hashes):
            self._begin, self._hashes = begin, self._hashes[:0]
        elif begin > self._begin:
            self._hashes = self._hashes[begin - self._begin :].copy()
            self._begin = begin
        parts = [self._hashes]
        at = begin + len(self._hashes)
        for _ in range(MAX_ENTRIES):
            if at >= end:
                break
            parts.append(self._entry(at))
            at += len(parts[-1])
        if len(parts) > 1:
            self._hashes = np.concatenate(parts)
        return self._hashes[: end - begin]

    def _entry(self, offset: int) -> Hashes:
        """Return the hashes of one entry from this offset on."""
        unit = self._replica.queues.get(*self._queue).read(offset, 1)
        entry = batch_entry_at(self._replica.log, int(unit["position"][0]), int(unit["size"][0])) if len(unit) else None
        if entry is None or not 0 <= offset - entry[0].base_offset < entry[0].count:
            raise CorruptBatchError(f"the index of queue {self._queue.queue} is damaged at offset {offset}")
        header, body = entry
        hashes = key_hashes(body, BatchHeader.parse(body))
        if hashes is None:
            return np.zeros(header.base_offset + header.count - offset, np.uint64)
        return np.array(hashes[offset - header.base_offset :], np.uint64)


class KeyedChoice(Choice):
    """The choice for groups with order by key."""

    def __init__(self, facts: ChoiceFacts, hashes: KeyHashes, wanted: int, most_skips: int) -> None:
        """About `wanted` messages are looked for, and at most `most_skips` ranges of unwanted messages are skipped."""
        self._facts = facts
        self._most_skips = most_skips
        window, begin = facts.window, max(facts.window.begin, facts.first)
        self.skips = [(window.begin, begin - window.begin)] if window.begin < begin else []
        end = facts.end
        reach = max(min(end, facts.reach()), min(end, window.end))
        keys = hashes.of(begin, facts.known(reach))
        self.dead: list[int] = []
        self._offsets = self._attempts = np.zeros(0, np.int64)
        look = _FIRST_LOOK
        while True:
            self._look(begin, keys[:look])
            if len(self._offsets) >= wanted or look >= len(keys):
                break
            look *= 2
        # The end of the window, with what this turn adds to it.
        self._end = max(window.end, begin)
        self._reach_to(max((first + size for first, size in self.skips), default=0))
        self.is_full = not len(self._offsets) and begin + len(keys) >= reach < end and facts.reach() < end

    @property
    def available(self) -> int:
        return len(self._offsets)

    def take(self, most: int, budget: ByteBudget) -> list[Chosen]:
        some = self._offsets[:most]
        some = some[some < self._end + max(0, self._facts.room.left)]
        if not len(some):
            return []
        fitting = budget.fitting(message_sizes(self._facts, some))
        chosen = list(ranges(some[:fitting], self._attempts[:fitting]))
        if fitting:
            self._reach_to(int(some[fitting - 1]) + 1)
        self._offsets, self._attempts = self._offsets[fitting:], self._attempts[fitting:]
        return chosen

    def _reach_to(self, end: int) -> None:
        """Note that this turn lets the window reach to the offset `end`."""
        more = max(0, end - self._end)
        self._end += more
        self._facts.room.left -= more

    def _look(self, begin: int, keys: Hashes) -> None:
        """Choose among the messages from `begin` on with these keys."""
        facts, window = self._facts, self._facts.window
        slots = window.slots[begin - window.begin :][: len(keys)]
        known = len(slots)
        is_open, is_free = np.ones(len(keys), np.bool_), np.ones(len(keys), np.bool_)
        attempts = np.zeros(len(keys), np.int64)
        is_open[:known] = slots["is_settled"] == 0
        is_free[:known] = are_free(slots, facts.now_ms)
        attempts[:known] = slots["attempts"]
        if facts.wants_some and len(keys) > known:
            wanted = facts.wanted(begin + known, facts.units(begin + known, len(keys) - known))
            is_open[known:] = wanted
            unwanted = list(gaps(np.flatnonzero(wanted), len(wanted), begin + known))
            most = self._most_skips
            if len(unwanted) > most:  # what is not skipped in this turn must not come into the window
                self._look(begin, keys[: unwanted[most][0] - begin])
                return
            before = [(window.begin, begin - window.begin)] if window.begin < begin else []
            self.skips = before + unwanted
        places = np.flatnonzero(is_open)
        open_keys = keys[places]
        is_first = np.asarray(open_keys == 0)
        is_first[np.unique(open_keys, return_index=True)[1]] = True
        chosen = places[is_first & is_free[places]]
        is_dead = attempts[chosen] >= facts.mode.max_attempts
        self.dead = (chosen[is_dead] + begin).tolist()
        chosen = chosen[~is_dead]
        self._offsets, self._attempts = chosen + begin, attempts[chosen]

"""Keeps the simulator's own account of where the log of one shard begins, and where its queues begin then.

    LOG_START entry    names the index after which the log begins
    BATCH entry        moves the end of its queue

The account reads the entries that were committed, in their order. By this account the log of a replica begins at the
index that an entry has named, and each queue begins at the end that it had at that index.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from ledger.broker.broker_replica import BrokerReplica
from ledger.state import State
from store import EntryKind, Header, Snapshot


class _QueueEnd(NamedTuple):
    entry: int
    # The offset of the next message after this entry.
    offset: int


class LogStarts:
    """The account of one shard. `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail
        # The newest entry that was taken into account.
        self._last = 0
        # Index of an entry -> the log start that it names.
        self._named: dict[int, int] = {}
        # (topic, queue) -> its ends in the order of the entries.
        self._ends: dict[tuple[int, int], list[_QueueEnd]] = {}

    def applied(self, header: Header, body: bytes) -> None:
        """Take an entry into account that a replica has applied. Replicas may apply it again later."""
        if header.index != self._last + 1:
            return
        self._last = header.index
        if header.kind is EntryKind.LOG_START:
            self._named[header.index] = int.from_bytes(body, "little")
        elif header.kind is EntryKind.BATCH:
            ends = self._ends.setdefault((header.topic_id, header.queue), [])
            ends.append(_QueueEnd(header.index, header.base_offset + header.count))

    def queue_end(self, topic_id: int, queue: int, index: int) -> int:
        """Return the offset of the next message of a queue after the entry with this index."""
        ends = self._ends.get((topic_id, queue), [])
        place = bisect_right(ends, index, key=lambda end: end.entry)
        return ends[place - 1].offset if place else 0

    def moved(self, node: int, replica: BrokerReplica, snapshot: Snapshot) -> None:
        """Check a replica whose log start an entry has just moved."""
        named = self._named.get(replica.driver.applied)
        if named != snapshot.index:
            self._fail(
                "the log begins where its entry says",
                f"the log of node {node} begins after entry {snapshot.index}, but entry {replica.driver.applied} names "
                f"{named}",
            )
        self.check(node, replica, snapshot)

    def check(self, node: int, replica: BrokerReplica, snapshot: Snapshot) -> None:
        """Check a replica whose log begins after this snapshot."""
        first = replica.log.first_index
        if first != snapshot.index + 1 or snapshot.index not in self._named.values():
            self._fail(
                "the log begins where its entry says",
                f"the log of node {node} begins with entry {first} after a snapshot of entry {snapshot.index}; the "
                f"entries name {sorted(self._named.values())}",
            )
        for topic_id, queue, offset in State.decode(snapshot.state).ends():
            if replica.state.topics.get(topic_id) is None:
                continue
            truth, begins = self.queue_end(topic_id, queue, snapshot.index), replica.queues.get(topic_id, queue)
            if (offset, begins.first_offset) != (truth, truth):
                self._fail(
                    "queues begin where the log does",
                    f"node {node}: after entry {snapshot.index}, queue {queue} of topic {topic_id} begins at {truth}, "
                    f"but at {offset} in the snapshot, and at {begins.first_offset} in its ConsumeQueue",
                )

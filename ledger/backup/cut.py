"""Decides which entries of a backup belong to a point in time.

    shard 1    entries up to the time
    shard 0    entries up to the time, and further ones until every topic that shard 1 has messages of was created

The leaders of two shards may have clocks that differ by a few seconds (raft/cluster_clock.py). Therefore an entry of
shard 1 can have an earlier append time than the entry of shard 0 that created its topic. Without its topic, a message
could not be read, and another topic could get the same id.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress

from ledger.backup.reading import EntryRange
from ledger.errors import LedgerError
from ledger.state import State
from ledger.state.command_encoding import command_type
from ledger.state.commands import AddShard, CreateTopic, DeleteTopic, RaiseFeatureLevel
from store import EntryKind, Header, Snapshot
from store.log.entry import HEADER_SIZE

# The commands that decide which ids topics get, and which shards there are.
_DECISIVE = (RaiseFeatureLevel, CreateTopic, DeleteTopic, AddShard)


class ShardCut:
    """Where the log of one shard is cut. `until_ms` is an append time in ms since 1970; None: nothing is cut."""

    def __init__(self, until_ms: int | None) -> None:
        self._until_ms = until_ms
        # The largest topic id among the batches before the cut.
        self.newest_topic = 0

    def kept(self, entries: EntryRange) -> int:
        """Return how many of the entries are before the cut."""
        count = len(entries.headers)
        if self._until_ms is not None:
            count = bisect_right(entries.headers, self._until_ms, key=lambda header: header.append_time_ms)
        for header in entries.headers[:count]:
            if header.kind is EntryKind.BATCH and header.topic_id > self.newest_topic:
                self.newest_topic = header.topic_id
        return count


class TopicsCut:
    """Where the log of shard 0 is cut: at the time, but not before the topic `newest_topic` was created. `until_ms` is
    an append time in ms since 1970; None: nothing is cut."""

    def __init__(self, until_ms: int | None, newest_topic: int, snapshot: Snapshot | None) -> None:
        self._until_ms = until_ms
        self._newest_topic = newest_topic
        self._state = State() if snapshot is None else State.decode(snapshot.state)

    @property
    def shards(self) -> list[int]:
        """Return the shards that were added before the cut, and shard 0."""
        return self._state.shards.numbers

    def kept(self, entries: EntryRange) -> int:
        """Return how many of the entries are before the cut."""
        begin, until_ms = entries.headers[0].position, self._until_ms
        for number, header in enumerate(entries.headers):
            is_later = until_ms is not None and header.append_time_ms > until_ms
            if is_later and self._state.topics.next_id > self._newest_topic:
                return number
            if header.kind is EntryKind.COMMAND:
                at = header.position - begin
                self._apply(header, bytes(entries.content[at + HEADER_SIZE : at + header.size]))
        return len(entries.headers)

    def _apply(self, header: Header, body: bytes) -> None:
        with suppress(LedgerError):  # a command that was refused when it was applied, or that needs other commands
            if command_type(body) in _DECISIVE:
                self._state.apply_command(body, header.append_time_ms, index=header.index)

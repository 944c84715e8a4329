"""Keeps the simulator's own account of one node in one shard: which entries the node has acknowledged, and which of
them its disk really lost.

    acknowledges     the bytes of the acknowledged entries are on the platter (`sync`), or in the page cache (`async`);
                     those of a configuration entry are on the platter in both modes
    process ends     the bytes on the disk are compared with the bytes that were acknowledged
    lost something   the node is a suspect, or repairs its log, from its start until it holds all it ever acknowledged;
                     its mark stays until these entries are on the platter
    cuts its log     what is behind the last entry is blank, also after a write that failed
    commits          a majority of the voters has acknowledged the entry

The account reads the simulated disk. From the product it takes only the place where an entry should be, and its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from chaos.sim.engine.disk import SimDisk
from chaos.sim.invariants import wrong_commit
from raft.core import Raft, Role
from store import CommitLog, Snapshot
from store.disk.numbered import name_of


class Tail(NamedTuple):
    """The last entry of a log, or of the acknowledged part of a log. The later tail is the more up-to-date log."""

    term: int
    last: int


class _Piece(NamedTuple):
    """Some bytes of a segment: the position of its first byte, and two offsets in it."""

    base: int
    first: int
    end: int


class HeldEntries:
    """The account of one node in one shard. `fail(invariant, what)` records a violation."""

    def __init__(
        self, node: int, directory: Path, *, segment_bytes: int, is_sync: bool, fail: Callable[[str, str], None]
    ) -> None:
        # The most up-to-date log that the node ever acknowledged, with any of its disks.
        self.acknowledged = Tail(0, 0)
        # What the node acknowledged before its disk lost a part of it, until the node holds that again.
        self.owed: Tail | None = None
        # The last entry of the log when the node was no suspect any more, while its mark is still there; else 0.
        self._trusted_at = 0
        # The term in which the node stood for election as a suspect, at the last look; else 0.
        self._stood_in = 0
        self._node = node
        self._log_directory, self._mark = directory / "log", directory / "suspect"
        self._segment_bytes = segment_bytes
        self._is_sync = is_sync
        self._fail = fail
        # The acknowledged entries of the present log: the last one, and the position after it.
        self._tail, self._end = Tail(0, 0), 0
        # Position of the first segment -> the acknowledged bytes, with blank space around them.
        self._copies: dict[int, bytearray] = {}
        # The position from which bytes are acknowledged.
        self._start = 0

    # -- what the node does

    def opened(self, log: CommitLog, disk: SimDisk) -> None:
        """The node has opened its log."""
        if self.owed is None and log.last_index < self._tail.last and log.last_index >= log.first_index:
            self._fail(
                "acknowledged entries stay",
                f"node {self._node} acknowledged entry {self._tail.last}, its disk lost nothing, and its log ends with "
                f"entry {log.last_index}",
            )
        if self.owed is not None or log.last_index < self._tail.last or log.start > self._end:
            self._begin_at(Tail(log.start_tail.term, log.first_index - 1), log.start)
        self._check_blank(log, disk)

    def holds(self, log: CommitLog, disk: SimDisk, index: int, configuration: int = 0) -> None:
        """The node says that it holds the entries up to `index`, by an acknowledgement or by counting itself.
        `configuration` is the index of the newest configuration entry."""
        before = self._tail.last
        if index <= before:
            return
        if index > log.last_index:
            self._fail(
                "acknowledged what it holds",
                f"node {self._node} acknowledges {index}, its log ends at {log.last_index}",
            )
            return
        tail = log.reading.tail_at(index)
        kept = disk.flushed if self._is_sync or before < configuration <= index else disk.written
        for piece in self._pieces(max(self._end, log.start), tail.end):
            wanted = log.segments.slice(piece.base + piece.first, piece.end - piece.first)
            if kept(self._log_directory / name_of(piece.base), piece.first, piece.end) != wanted:
                where = "flushed" if kept == disk.flushed else "written"
                self._fail(
                    "what is acknowledged is on the disk",
                    f"node {self._node} holds entries up to {index}, but bytes {piece.first} to {piece.end} of segment "
                    f"{piece.base} are not {where}",
                )
                break
            copy = self._copies.setdefault(piece.base, bytearray(self._segment_bytes))
            copy[piece.first : piece.end] = wanted
        self._tail, self._end = Tail(tail.term, index), tail.end
        self.acknowledged = max(self.acknowledged, self._tail)

    def cuts(self, log: CommitLog, last_index: int) -> None:
        """The node is about to cut its log after this entry, because a leader has other entries there."""
        if last_index < self._tail.last:
            tail = log.reading.tail_at(last_index)
            self._tail, self._end = Tail(tail.term, last_index), tail.end

    def has_cut(self, log: CommitLog) -> None:
        """Check the bytes behind a log that was cut, or in which a write has failed."""
        for base in log.segments.bases:
            first = max(log.end, base)
            count = base + self._segment_bytes - first
            if count > 0 and not _is_blank(log.segments.read(first, count)):
                self._not_blank(log, base)

    def replaces(self, log: CommitLog, snapshot: Snapshot) -> None:
        """The node is about to replace its log by a snapshot. It must not drop entries that follow the snapshot."""
        if log.first_index <= snapshot.index < self._tail.last and log.chain(snapshot.index) == snapshot.chain:
            self.lost()
        self._begin_at(Tail(snapshot.term, snapshot.index), snapshot.end)
        self.acknowledged = max(self.acknowledged, self._tail)

    def begins_behind(self, position: int) -> None:
        """The log begins at this position, so the entries before it are gone."""
        self._start = max(self._start, position)
        for base in [base for base in self._copies if base + self._segment_bytes <= position]:
            del self._copies[base]

    def ended(self, disk: SimDisk) -> None:
        """The process has ended, and the next one will find this disk."""
        for base, copy in self._copies.items():
            first, end = max(self._start - base, 0), min(self._end - base, self._segment_bytes)
            if first < end and disk.written(self._log_directory / name_of(base), first, end) != copy[first:end]:
                self.lost()
                return

    def lost(self) -> None:
        """The disk lost something that the node acknowledged."""
        if self._tail.last:
            self.owed = max(self._tail, self.owed or self._tail)
            self._begin_at(Tail(0, 0), 0)

    def wiped(self) -> None:
        """The node has an empty disk, and returns as another member."""
        self.owed = None
        self._begin_at(Tail(0, 0), 0)

    # -- after each event of the node

    def look(self, raft: Raft, log: CommitLog, disk: SimDisk) -> None:
        """Check a node that runs."""
        if raft.durable > self._tail.last:
            self.holds(log, disk, raft.durable, raft.configuration_index)
        if self.owed is not None:
            self._look_at_suspect(raft, log, disk, self.owed)

    def _look_at_suspect(self, raft: Raft, log: CommitLog, disk: SimDisk, owed: Tail) -> None:
        is_marked = disk.has(self._mark)
        if raft.is_suspect:
            self._trusted_at = 0
            self._stood_in = raft.term if raft.role is Role.CANDIDATE else 0
            if not is_marked:
                self._fail("a suspect is marked", f"node {self._node} is a suspect, but its disk has no mark")
                self.owed = None
            return
        tail = Tail(log.tail.term, log.last_index)
        if self._stood_in == raft.term != 0 and raft.leader == 0:
            # All voters elected it, so the loss of what no voter has is accepted. It has left already, for example
            # because its disk is full.
            self.owed = owed = min(owed, tail)
        if raft.role is not Role.LEADER and tail < owed:
            self._fail(
                "a node that lost something is a suspect",
                f"node {self._node} acknowledged entry {owed.last} of term {owed.term} and lost it; it is no suspect, "
                f"and its log ends with entry {log.last_index} of term {log.tail.term}",
            )
            self.owed = None
        elif is_marked:
            self._trusted_at = self._trusted_at or log.last_index
        else:
            # Entries that came after it was trusted are not those that it owes, even if their indexes are.
            self._check_flushed(log, disk, min(owed.last, self._trusted_at or log.last_index))
            self.owed, self._trusted_at = None, 0

    def _check_flushed(self, log: CommitLog, disk: SimDisk, index: int) -> None:
        if index < log.first_index:
            return
        for piece in self._pieces(log.start, log.reading.tail_at(index).end):
            wanted = log.segments.slice(piece.base + piece.first, piece.end - piece.first)
            if disk.flushed(self._log_directory / name_of(piece.base), piece.first, piece.end) != wanted:
                self._fail(
                    "a suspect is marked",
                    f"node {self._node} has no mark any more, but segment {piece.base} is not flushed up to {index}",
                )
                return

    # -- parts

    def _begin_at(self, tail: Tail, position: int) -> None:
        self._tail, self._end, self._start = tail, position, position
        self._copies.clear()

    def _pieces(self, first: int, end: int) -> Iterator[_Piece]:
        while first < end:
            base = first - first % self._segment_bytes
            last = min(end, base + self._segment_bytes)
            yield _Piece(base, first - base, last - base)
            first = last

    def _check_blank(self, log: CommitLog, disk: SimDisk) -> None:
        """Check, on the disk, the bytes behind a log that was just opened."""
        for base in log.segments.bases:
            first, path = max(log.end - base, 0), self._log_directory / name_of(base)
            if first < self._segment_bytes:
                flushed = disk.flushed(path, first, self._segment_bytes)
                if not (_is_blank(disk.written(path, first, self._segment_bytes)) and _is_blank(flushed)):
                    self._not_blank(log, base)

    def _not_blank(self, log: CommitLog, base: int) -> None:
        self._fail(
            "behind the tail it is blank",
            f"node {self._node}: the log ends at {log.end}, and segment {base} has bytes behind that",
        )


def _is_blank(data: bytes) -> bool:
    return not data.strip(b"\0")


def check_majority(raft: Raft, log: CommitLog, accounts: Mapping[int, HeldEntries]) -> str:
    """Return what is wrong with what this leader has committed, or ""."""
    if raft.commit < log.first_index:
        return ""
    committed = Tail(log.term(raft.commit), raft.commit)
    holders = {voter for voter, account in accounts.items() if account.acknowledged >= committed}
    return wrong_commit(raft, holders)

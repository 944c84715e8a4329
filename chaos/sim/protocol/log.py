"""Simulates the log of a node in the protocol world. The log is a list of entries, and the entries up to an index are
flushed. Implements `raft.interfaces.Log`.

    entries    1 ............ flushed ............ last_index       page cache: what the process reads
    platter    1 ............ flushed [ maybe some of the rest ]    what survives a power cut
               or the entries before an unflushed truncation

The entries of a simulated log have real headers, with real values of the chain. Nodes send entries to each other as
objects, and no node parses entries. The stack world uses the real log instead.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, NoReturn, Self

import google_crc32c

from raft.core import TermRun
from store import EntryDraft, ForkedError, Header, NoSpaceError, Readable, Snapshot, StoreError
from store.log.entry import HEADER_SIZE, chained, padded

_SEALED = struct.Struct("<BQQqqII")
_BLANK = bytes(HEADER_SIZE)
NO_SNAPSHOTS = "logs always begin with entry 1 in the protocol world; use the stack world for log starts and snapshots"
PATH = Path("/simulated")


class SimEntry(NamedTuple):
    header: Header
    body: bytes


class SimRange(bytes):
    """A range of entries that a leader sends to a follower. The bytes of a range have the same length as the
    encoded entries, but the headers in the bytes are blank. The follower reads the entry objects in `entries` and
    ignores the bytes."""

    entries: Sequence[SimEntry]

    @classmethod
    def of(cls, entries: Sequence[SimEntry]) -> Self:
        made = cls(
            b"".join([bytes(HEADER_SIZE) + entry.body.ljust(padded(len(entry.body)), b"\0") for entry in entries])
        )
        made.entries = entries
        return made


class SimLog:
    """A simulated log, which is kept when the process of its node ends. `killed` and `power_lost` change the log to
    the state that the next process finds."""

    def __init__(self, *, dates_back: bool = True) -> None:
        """Without `dates_back`, no entry gets an earlier append time than the entry before it, as in the real log."""
        self.entries: list[SimEntry] = []
        self._dates_back = dates_back
        # <= last_index
        self.flushed = 0
        # Whether the disk is full, so that appends fail.
        self.full = False
        # The error of a failed flush. After it nothing is written any more.
        self.failure: StoreError | None = None
        # The flushed entries before an unflushed truncation; None if there is none.
        self._before_cut: list[SimEntry] | None = None
        # During a flush: how many of the entries at its start still exist. None if no flush runs.
        self._covered: int | None = None
        # Whether the log was truncated since the running flush began.
        self._cut_since = False

    # -- called by the driver

    @property
    def last_index(self) -> int:
        return len(self.entries)

    @property
    def first_index(self) -> int:
        return 1

    def append(self, drafts: Sequence[EntryDraft], *, term: int, commit: int, now_ms: int) -> list[Header]:
        self._check_writable()
        headers = []
        for draft in drafts:
            last = self.entries[-1].header if self.entries else None
            if last is not None and not self._dates_back:
                now_ms = max(now_ms, last.append_time_ms)
            header = _header(draft, last, term, commit, now_ms)
            self.entries.append(SimEntry(header, draft.body))
            headers.append(header)
        return headers

    def examine(self, data: Readable, prev_index: int) -> list[Header]:
        assert isinstance(data, SimRange)
        chain = self.entries[prev_index - 1].header.chain if prev_index else 0
        headers = [entry.header for entry in data.entries]
        assert headers[0].index == prev_index + 1, "the first entry of a range must follow prev_index"
        for header in headers:
            chain = chained(chain, header.crc)
            if header.chain != chain:
                raise ForkedError(header.index, chain, header.chain)
        return headers

    def write(self, data: Readable, headers: list[Header], first: int) -> None:
        assert isinstance(data, SimRange)
        assert first == self.last_index + 1, f"entry {first} would leave a gap or overlap after {self.last_index}"
        self._check_writable()
        self.entries.extend(data.entries[first - headers[0].index :])

    def truncate(self, last_index: int) -> None:
        if self.failure is not None:
            raise self.failure
        if last_index < self.flushed:
            if self._before_cut is None:
                self._before_cut = self.entries[: self.flushed]
            self.flushed = last_index
        if self._covered is not None:
            self._covered, self._cut_since = min(self._covered, last_index), True
        del self.entries[last_index:]

    def term(self, index: int) -> int:
        return self.entries[index - 1].header.term if index else 0

    def chain(self, index: int) -> int:
        return self.entries[index - 1].header.chain if index else 0

    def header(self, index: int) -> Header:
        return self.entries[index - 1].header

    def entry(self, index: int) -> tuple[Header, memoryview]:
        header, body = self.entries[index - 1]
        return header, memoryview(body)

    def view_range(self, first: int, last: int) -> bytes:
        """Return a range that contains the entry objects from `first` to `last`, because a simulated log has no
        bytes to view."""
        return SimRange.of(self.entries[first - 1 : last])

    # -- the start of the log, which never moves in this world: the driver is given no snapshots

    def begins_segment(self, index: int) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def snapshot_at(self, index: int, *, configuration: bytes, state: bytes) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def drop_before(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    def reset(self, snapshot: Snapshot) -> NoReturn:
        raise AssertionError(NO_SNAPSHOTS)

    # -- called by the node

    @property
    def known_commit(self) -> int:
        """The largest commit index that any entry of the log has in its header. At a start, recovery finds this
        commit index in the log."""
        return max((entry.header.commit for entry in self.entries), default=0)

    def term_runs(self) -> list[TermRun]:
        runs: list[TermRun] = []
        for entry in self.entries:
            if not runs or runs[-1].term != entry.header.term:
                runs.append(TermRun(entry.header.index, entry.header.term))
        return runs

    def reach(self, first: int, max_bytes: int) -> tuple[int, int]:
        """Choose the longest range of entries that begins at the index `first` and has at most `max_bytes` bytes.
        Return the index of the last entry of the range, and the size of the range in bytes. The range has at least
        one entry, even if the first entry is longer than `max_bytes`."""
        entries, last = self.entries, first
        size = padded(entries[first - 1].header.size)
        while last < len(entries):
            size += padded(entries[last].header.size)
            if size > max_bytes:
                return last, size - padded(entries[last].header.size)
            last += 1
        return last, size

    # -- flushes and power cuts

    def flush_began(self) -> None:
        self._covered, self._cut_since = self.last_index, False

    def flush_ended(self) -> None:
        assert self._covered is not None
        self.flushed, self._covered = max(self.flushed, self._covered), None
        if not self._cut_since:
            self._before_cut = None

    def flush_failed(self, failure: StoreError) -> None:
        """Simulate a failed flush. The dirty pages are marked as clean, so readers still see the pages, but the
        pages never reach the disk."""
        self.failure = failure

    def killed(self, random: Random) -> None:
        """Change the log to the state that the next process finds after a kill. The log keeps all entries in the
        page cache. After a failed flush, unflushed entries can be lost."""
        if self.failure is not None:
            self.power_lost(random)
        self._restarted()

    def power_lost(self, random: Random) -> str:
        """Change the log to the state that the next process finds after a power cut. The log keeps the flushed
        entries and some of the unflushed entries, or returns to its entries before an unflushed truncation. Return
        the effect on the log: "nothing", "lost" (unflushed entries are missing) or "came back" (truncated entries
        are in the log again)."""
        before = self.last_index
        outcome = "nothing"
        if self._before_cut is not None and random.random() < 0.5:
            self.entries, outcome = self._before_cut, "came back"
        else:
            kept = random.choice((self.flushed, random.randint(self.flushed, before)))
            del self.entries[kept:]
            outcome = "lost" if kept < before else "nothing"
        self._restarted()
        return outcome

    def put_back(self, entries: Sequence[SimEntry]) -> None:
        """Replace the log by an older copy of itself, which the next process finds."""
        self.entries = list(entries)
        self._restarted()

    def _restarted(self) -> None:
        """Reset the state of the flushes for the next process. The whole log counts as flushed, because the next
        process flushes the log before it starts."""
        self.failure, self._before_cut, self._covered = None, None, None
        self.flushed = self.last_index

    def _check_writable(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.full:
            raise NoSpaceError(PATH)


def _header(draft: EntryDraft, last: Header | None, term: int, commit: int, now_ms: int) -> Header:
    """Return the header of a new entry. Unlike the checksum of a real header, the checksum covers only the body and
    the fields that distinguish entries."""
    index, position, chain = (last.index + 1, last.end, last.chain) if last else (1, 0, 0)
    sealed = _SEALED.pack(draft.kind, index, term, now_ms, draft.base_offset, draft.topic_id, draft.queue)
    crc = google_crc32c.value(sealed + draft.body)
    return Header(
        draft.kind, 0, draft.size, draft.count, index, term, position, commit, now_ms,
        draft.base_offset, draft.topic_id, draft.queue, crc, chained(chain, crc),
    )  # fmt: skip

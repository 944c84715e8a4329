"""Writes the entries of a leader or of a follower to the log, and records when the entries are as durable as the
flush mode promises."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from raft.core import Raft, Write
from raft.entry_times import EntryTimes
from raft.errors import CutFailedError
from raft.interfaces import DriverDisk, Log
from raft.received_range import ReceivedRange
from store import EntryDraft, EntryKind, Header, StoreError


class LogWriter:
    """`LogWriter` writes the entries of one replica to its log. A write that fails raises StoreError."""

    def __init__(
        self,
        raft: Raft,
        log: Log,
        disk: DriverDisk,
        *,
        times: EntryTimes,
        now_ms: Callable[[], int],
        on_persisted: Callable[[], None],
    ) -> None:
        """`times` remembers when this replica wrote and held its entries. `on_persisted()` is called when
        `report_persisted` has a held write to report."""
        self._raft = raft
        self._log = log
        self._disk = disk
        self._times = times
        self._now_ms = now_ms
        self._on_persisted = on_persisted
        # (token, term, index) of writes that are held, in order. The core does not know of them yet.
        self._persisted: deque[tuple[int, int, int]] = deque()

    def append(self, drafts: Sequence[EntryDraft]) -> list[Header]:
        """Append this leader's entries in one group write."""
        begun_ms = self._times.now()
        headers = self._log.append(drafts, term=self._raft.term, commit=self._raft.commit, now_ms=self._now_ms())
        last = headers[-1]
        self._times.wrote(headers[0].index, last.index, begun_ms)
        token = self._raft.own_write(last.index)
        self._persist(headers, token, last.term, last.index)
        return headers

    def write(self, write: Write, received: ReceivedRange) -> None:
        """Write a follower's entries: cut the log if the core asks for it, then write the received range."""
        if write.truncate_to is not None:
            self._cut(write.truncate_to)
        begun_ms = self._times.now()
        self._log.write(received.data, received.headers, write.first)
        self._times.wrote(write.first, write.last, begun_ms)
        self._persist(received.headers, write.token, write.term, write.last)

    def report_persisted(self) -> bool:
        """Report to the core the oldest write that is as durable as the flush mode promises. Return True if a write
        was reported."""
        if not self._persisted:
            return False
        self._raft.persisted(*self._persisted.popleft())
        return True

    def _cut(self, last_index: int) -> None:
        try:
            self._log.truncate(last_index)
        except StoreError as failure:
            raise CutFailedError(last_index) from failure
        self._times.cut(last_index)

    def _persist(self, headers: Sequence[Header], token: int, term: int, index: int) -> None:
        """Ask the disk to hold these entries as the flush mode promises. A configuration entry is flushed in every
        flush mode before it counts as held.

        Without this flush, a node that lost a configuration in a crash could believe that it is the only voter."""
        is_flushed = any(header.kind is EntryKind.CONFIGURATION for header in headers)
        hold = self._disk.flush if is_flushed else self._disk.persist
        hold(lambda: self._note(token, term, index))

    def _note(self, token: int, term: int, index: int) -> None:
        self._times.holds(index)
        self._persisted.append((token, term, index))
        self._on_persisted()

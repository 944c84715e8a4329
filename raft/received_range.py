"""Holds the received byte range about which the core must decide next, and checks the range."""

from __future__ import annotations

from raft.configuration_entry import InvalidConfigurationError
from raft.core import Append, InvalidMessage, Raft
from raft.interfaces import Log
from raft.ranges import configurations, term_runs
from store import Header, Readable


class ReceivedRange:
    """`ReceivedRange` checks each received byte range against the log, and keeps the range until the core has
    accepted or rejected it."""

    def __init__(self, raft: Raft, log: Log) -> None:
        self.data: Readable = b""
        self.headers: list[Header] = []
        self._raft = raft
        self._log = log

    def take(self, append: Append, entries: Readable) -> Append:
        """Return the Append with the terms and configurations that its entries contain.

        The CRCs and the chain of the entries are checked first. If this log lacks the entry before the range, the core
        can reject the Append without looking at the entries. After a rejection, `take` returns the Append unchanged.

        Raise InvalidMessage if an entry contains an impossible configuration, CorruptRangeError if the bytes are
        damaged, ForkedError if they do not continue this log's chain, RangeDamagedError if this log is damaged before
        the range, or another StoreError if this log cannot be read now."""
        if not entries or not self.continues_log(append) or append.term < self._raft.term:
            return append
        if append.sender in self._raft.divergences:
            return append  # the core refuses it without looking at the entries
        headers = self._log.examine(entries, append.prev_index)
        try:
            configured = configurations(headers, entries, self._raft.settings)
        except InvalidConfigurationError as error:
            raise InvalidMessage(append.sender, str(error)) from error
        self.data, self.headers = entries, headers
        return Append(
            sender=append.sender,
            receiver=append.receiver,
            term=append.term,
            prev_index=append.prev_index,
            prev_term=append.prev_term,
            runs=term_runs(headers),
            last_index=headers[-1].index,
            commit=append.commit,
            configurations=configured,
        )

    def forget(self) -> None:
        """Drop the range after the core has accepted or rejected it."""
        self.data, self.headers = b"", []

    def continues_log(self, append: Append) -> bool:
        """Return True if the entry before the range is in this log."""
        prev, log = append.prev_index, self._log
        return log.first_index - 1 <= prev <= log.last_index and (prev == 0 or log.term(prev) == append.prev_term)

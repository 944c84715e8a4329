"""Holds the received byte range about which the core must decide next, and checks the range."""

from __future__ import annotations

from raft.configuration_entry import InvalidConfigurationError
from raft.core import Append, InvalidMessage, Raft
from raft.interfaces import Log
from raft.ranges import configurations, term_runs
from store import ForkedError, Header, Readable


class ReceivedRange:
    """`ReceivedRange` checks each received byte range against the log, and keeps the range until the core has
    accepted or rejected it."""

    def __init__(self, raft: Raft, log: Log) -> None:
        self.data: Readable = b""
        self.headers: list[Header] = []
        self._raft = raft
        self._log = log
        # The index at which the last range that did not continue this log's chain differed from the log.
        self._forked_at = 0

    def take(self, append: Append, entries: Readable) -> Append:
        """Return the Append with the terms and configurations that its entries contain.

        The CRCs and the chain of the entries are checked first. If this log lacks the entry before the range, the core
        can reject the Append without looking at the entries. After a rejection, `take` returns the Append unchanged.

        Raise InvalidMessage if an entry contains an impossible configuration, CorruptRangeError if the bytes are
        damaged, or ForkedError if they do not continue this log's chain."""
        if not entries or not self.continues_log(append) or append.term < self._raft.term:
            return append
        headers = self._log.examine(entries, append.prev_index)
        try:
            configured = configurations(headers, entries)
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

    def forked_again(self, fork: ForkedError) -> bool:
        """Record that a received range contradicts the chain of this log at an index (a fork). Return True if the
        previous fork was at the same index. The fork is then real, and not a transmission error."""
        again = fork.index == self._forked_at
        self._forked_at = fork.index
        return again

    def continues_log(self, append: Append) -> bool:
        """Return True if the entry before the range is in this log."""
        prev, log = append.prev_index, self._log
        return log.first_index - 1 <= prev <= log.last_index and (prev == 0 or log.term(prev) == append.prev_term)

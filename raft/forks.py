"""Proves divergences that the core cannot see, because the core knows only the terms of entries: a *fork* is an entry
with the same index and term and other bytes, and the last entry of a snapshot is not in the core's message.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core import AppendResponse, Raft
from raft.interfaces import Log
from store import ForkedError, Header, StoreError


class Forks:
    """Compares chains and terms of other nodes with the log of this replica."""

    def __init__(self, raft: Raft, log: Log) -> None:
        self._raft = raft
        self._log = log
        # The index at which the last range that did not continue this log's chain differed from the log, and the chain
        # that it had there.
        self._forked_at = (0, 0)

    def is_proven(self, fork: ForkedError) -> bool:
        """Record that a received range does not continue the chain of this log. Return True if the previous fork was at
        the same index and had the same chain. The fork is then real, and not a transmission error: the checksum of an
        entry does not cover its chain, and damage in transit changes other bits each time."""
        before, self._forked_at = self._forked_at, (fork.index, fork.found_chain)
        return before == self._forked_at

    def within(self, headers: Sequence[Header]) -> int:
        """Return the last index at which this log has an entry of the same term as the examined range, if the range has
        other bytes up to there. Otherwise return 0."""
        log = self._raft.log
        if not headers or headers[0].index > log.last_index:
            return 0
        common = next((each for each in reversed(headers) if log.holds(each.index, each.term)), None)
        return common.index if common is not None and self.chain(common.index) not in (0, common.chain) else 0

    def is_unproven(self, response: AppendResponse) -> bool:
        """Return True if a follower reports a fork, and the committed entry that it names is equal in this log. The
        logs then differ only behind the follower's commit index, which proves nothing."""
        claim = response.contradicted
        if claim is None or not claim.chain or not self._raft.log.holds(claim.index, claim.term):
            return False
        return self.chain(claim.index) in (0, claim.chain)

    def contradicts(self, index: int, term: int) -> bool:
        """Return True if this replica has committed an entry of another term at this index."""
        raft = self._raft
        return raft.log.snapshot_index <= index <= raft.commit and raft.log.term(index) != term

    def chain(self, index: int) -> int:
        """Return the chain of this log up to the index, or 0 if it cannot be read."""
        try:
            return self._log.chain(index)
        except StoreError:  # damage that scrub repair has not repaired yet
            return 0

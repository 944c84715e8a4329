"""Keeps the proposals of one replica that have no result yet.

    add ──> queued ──group write──> uncommitted ──commit and apply──> settled(True)
              └───────────── leadership lost, or the write failed ──> settled(False)

The core learns of a proposal only when the proposal leaves the queue. A proposal that fails while it is queued was
certainly not appended.
"""

from __future__ import annotations

from collections import deque

from raft.interfaces import Proposal
from store import Header


class WaitingProposals:
    """Each waiting proposal is in exactly one of two states: queued or uncommitted."""

    def __init__(self) -> None:
        # The bytes of the bodies of all queued proposals.
        self.queued_bytes = 0
        # Not yet appended. One group write appends them at the end of the turn.
        self._queued: list[Proposal] = []
        # (index, proposal) in order of index: appended in the present term and not yet applied.
        self._uncommitted: deque[tuple[int, Proposal]] = deque()

    def __len__(self) -> int:
        return len(self._queued) + len(self._uncommitted)

    @property
    def has_queued(self) -> bool:
        return bool(self._queued)

    def add(self, proposal: Proposal) -> None:
        """Queue a proposal for the next group write."""
        self.queued_bytes += len(proposal.draft.body)
        self._queued.append(proposal)

    def take_queued(self) -> list[Proposal]:
        """Remove and return all queued proposals. For each returned proposal, the caller must call `appended` or
        settle the proposal."""
        queued, self._queued, self.queued_bytes = self._queued, [], 0
        return queued

    def appended(self, proposal: Proposal, header: Header) -> None:
        """Record that the proposal's entry is written to the log."""
        proposal.appended(header)
        self._uncommitted.append((header.index, proposal))

    def applied(self, index: int) -> None:
        """Record that entry `index` is applied. Settle the proposal of that entry, if this replica proposed the
        entry."""
        if self._uncommitted and self._uncommitted[0][0] == index:
            self._uncommitted.popleft()[1].settled(committed=True)

    def give_up(self) -> list[Proposal]:
        """Remove all proposals, queued and uncommitted. Return the proposals in order. The caller settles each
        proposal as not committed."""
        waiting = [*(proposal for _, proposal in self._uncommitted), *self._queued]
        self._uncommitted.clear()
        self.take_queued()
        return waiting

"""What must hold after every event, over the whole history of a network (Figure 3 of the paper).

Election Safety, Leader Append-Only, Log Matching, Leader Completeness, State Machine Safety; and of each node that
commit <= last_index, that term, vote and commit never fall, and that what it acknowledged is on its disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.core import Role

if TYPE_CHECKING:
    from tests.raft.network import Entry, Node


class History:
    def __init__(self) -> None:
        # Term -> its leader.
        self.leaders: dict[int, int] = {}
        # What was committed first at each index from 1 on, by anyone.
        self.entries: list[Entry] = []
        # (term, index) -> the value and all that precedes it, as one chained hash.
        self.chains: dict[tuple[int, int], int] = {}
        # Node -> its vote for each term, as it became durable.
        self.votes: dict[tuple[int, int], int] = {}
        # (leader, term) -> its log as last seen.
        self.leader_logs: dict[tuple[int, int], list[Entry]] = {}
        self.reads_answered = 0
        self.losses_accepted = 0

    @property
    def newest_commit(self) -> int:
        return len(self.entries)

    def check(self, node: Node) -> None:
        raft, written = node.raft, node.disk.written
        assert raft.log.last_index == len(written), "the core's view of the log is the log"
        assert raft.commit <= raft.log.last_index
        assert raft.durable <= raft.log.last_index
        assert raft.term >= raft.log.last_term
        assert node.disk.vote.term <= raft.term
        self._check_durable(node)
        self._check_vote(node)
        self._check_log(node)
        if raft.role is Role.LEADER:
            self._check_leader(node)

    def committed(self, node: Node, commit: int) -> None:
        """State Machine Safety (section 5.4.3): no two nodes commit different entries at one index."""
        log = node.disk.written
        for known, entry in zip(self.entries, log[:commit], strict=False):
            assert known == entry, f"node {node.number} commits {entry} where {known} was committed"
        self.entries += log[len(self.entries) : commit]

    def accept_loss(self, leader: Node) -> None:
        """Everyone elected it, suspects too: what it does not have is lost, and that is told."""
        self.losses_accepted += 1
        log = leader.disk.written
        same = [known == entry for known, entry in zip(self.entries, log, strict=False)]
        del self.entries[same.index(False) if False in same else len(log) :]
        for node in leader.network.nodes.values():
            node.reads = {token: min(index, len(self.entries)) for token, index in node.reads.items()}

    def read(self, node: Node, token: int, index: int) -> None:
        """A read sees all that had been committed anywhere when it was requested."""
        assert index >= node.reads[token], f"read {token} at {index} misses what was committed: {node.reads[token]}"
        assert node.raft.commit >= index
        self.reads_answered += 1

    def _check_durable(self, node: Node) -> None:
        durable = 0 if node.network.async_flush else node.raft.durable
        assert node.disk.flushed[:durable] == node.disk.written[:durable], f"{node.number} believes {durable} durable"

    def _check_vote(self, node: Node) -> None:
        """One vote for each term, as the disk has it (section 5.2)."""
        vote = node.disk.vote
        if vote.voted_for:
            first = self.votes.setdefault((node.number, vote.term), vote.voted_for)
            assert first == vote.voted_for, f"node {node.number} voted twice in term {vote.term}"

    def _check_log(self, node: Node) -> None:
        """Log Matching (section 5.3): the same term at the same index means the same log up to there."""
        chain = 0
        for index, entry in enumerate(node.disk.written, 1):
            chain = hash((chain, entry))
            known = self.chains.setdefault((entry.term, index), chain)
            assert known == chain, f"node {node.number} has another log up to entry {index} of term {entry.term}"

    def _check_leader(self, node: Node) -> None:
        raft, written = node.raft, node.disk.written
        first = self.leaders.setdefault(raft.term, node.number)
        assert first == node.number, f"Election Safety: {first} and {node.number} lead term {raft.term}"
        before = self.leader_logs.get((node.number, raft.term), [])
        assert written[: len(before)] == before, "Leader Append-Only"
        self.leader_logs[node.number, raft.term] = list(written)
        newest = max(self.leaders)
        if raft.term == newest:
            assert written[: len(self.entries)] == self.entries, f"Leader Completeness: leader {node.number}"

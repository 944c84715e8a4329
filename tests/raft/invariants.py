"""The invariants of the simulator (`chaos.sim.invariants`), checked after every event of a network of cores.

This module also checks three things that only this network can see: the core's view of the log, the flushed entries,
and the reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.sim.invariants import Invariants
from raft.core import Raft

if TYPE_CHECKING:
    from tests.raft.network import Entry, Node


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """Implements `chaos.sim.world.EntryHeader`."""

    term: int
    chain: int


class ChainedLog:
    """Implements `chaos.sim.world.SimNodeLog`."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries: list[ChainedEntry] = []
        chain = 0
        for entry in entries:
            chain = hash((chain, entry))
            self._entries.append(ChainedEntry(entry.term, chain))

    @property
    def last_index(self) -> int:
        return len(self._entries)

    def header(self, index: int) -> ChainedEntry:
        return self._entries[index - 1]


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node of the network in the form that the invariants check. Implements `chaos.sim.world.SimNode`."""

    node: int
    raft: Raft
    log: ChainedLog
    alive: bool = True


class History:
    def __init__(self) -> None:
        self._invariants = Invariants(lambda: 0)
        # (node, term) -> its vote, as it became durable. Nodes have no incarnations here: to the other nodes a wiped
        # node is the voter that it was before, and must not vote twice in a term either.
        self._votes: dict[tuple[int, int], int] = {}
        self.reads_answered = 0
        self.losses_accepted = 0

    @property
    def leaders(self) -> dict[int, int]:
        """The leader of each term, by term."""
        return self._invariants.leaders

    @property
    def newest_commit(self) -> int:
        return self._invariants.newest_commit

    def check(self, node: Node) -> None:
        raft, written = node.raft, node.disk.written
        assert raft.log.last_index == len(written), "the core's view of the log is the log"
        assert raft.durable <= raft.log.last_index
        assert raft.term >= raft.log.last_term
        assert node.disk.vote.term <= raft.term
        self._check_durable(node)
        self._check_vote(node)
        self._invariants.check(CheckedNode(node.number, raft, ChainedLog(written)))
        assert not self._invariants.violations, str(self._invariants.violations[0])

    def wiped(self, number: int) -> None:
        """The node starts again with an empty disk."""
        self._invariants.wiped(number)

    def accept_loss(self, leader: Node) -> None:
        """All voters elected this leader, including suspects. The invariants accept the loss of committed entries that
        it lacks."""
        self.losses_accepted += 1
        self._invariants.forgive(self._invariants.kept_by(ChainedLog(leader.disk.written)))
        for node in leader.network.nodes.values():
            node.reads = {token: min(index, self.newest_commit) for token, index in node.reads.items()}

    def read(self, node: Node, token: int, index: int) -> None:
        """Check that the read sees every entry that was committed on any node at the time of the request."""
        assert index >= node.reads[token], f"read {token} at {index} misses what was committed: {node.reads[token]}"
        assert node.raft.commit >= index
        self.reads_answered += 1

    # -- outside of Raft's promises

    def end(self) -> None:
        """Check nothing from now on: the disks lost entries without the servers' knowledge."""
        self.check = self.read = lambda *_: None  # type: ignore[method-assign,assignment]

    def _check_durable(self, node: Node) -> None:
        durable = 0 if node.network.async_flush else node.raft.durable
        assert node.disk.flushed[:durable] == node.disk.written[:durable], f"{node.number} believes {durable} durable"

    def _check_vote(self, node: Node) -> None:
        """Check that the node's disk never has two votes for one term (section 5.2)."""
        vote = node.disk.vote
        self._invariants.vote_saved(node.number, vote.term, vote.voted_for)
        if vote.voted_for:
            first = self._votes.setdefault((node.number, vote.term), vote.voted_for)
            assert first == vote.voted_for, f"node {node.number} voted twice in term {vote.term}"

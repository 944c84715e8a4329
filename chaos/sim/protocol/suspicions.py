"""Keeps the protocol world's own account of what power cuts took from nodes, and of what leaders may count.

    power cut      the entries that the node had are noted, if the cut makes the node a suspect (`async`)
    trusted again  the node holds all of them that were committed
    commit         a majority of the voters has acknowledged the entry to this leader. After a leader has heard that a
                   voter is a suspect, earlier acknowledgements of this voter do not count, and later ones count only
                   when the voter is trusted again

A node that is trusted too early, or counted too early, loses a message only if the right node fails just then. The
account finds it without the second failure.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.sim.campaign.swarm import Options
from chaos.sim.invariants import Invariants, wrong_commit
from chaos.sim.protocol.node import ProtocolNode
from raft.core import AppendResponse, HeartbeatResponse, Raft, RaftMessage, Role


class _Account:
    """What one leader was told in one term."""

    def __init__(self, raft: Raft) -> None:
        self.raft, self.term, self.commit = raft, raft.term, raft.commit
        # Voter -> the last index that it acknowledged to this leader.
        self.acknowledged: dict[int, int] = {}
        # Voter -> the number of the suspicion that the leader has heard of last.
        self.told: dict[int, int] = {}

    def is_of(self, raft: Raft) -> bool:
        return self.raft is raft and self.term == raft.term


class Suspicions:
    """The account of all nodes. `peers` returns the node with a number."""

    def __init__(self, invariants: Invariants, options: Options, peers: Callable[[int], ProtocolNode]) -> None:
        self._invariants = invariants
        self._judges = options.has_faults
        self._peers = peers
        # Node -> chain values of the entries that it had before each power cut since it was last trusted.
        self._lost: dict[int, list[list[int]]] = {}
        # Leader -> its account.
        self._led: dict[int, _Account] = {}

    def loses_power(self, node: ProtocolNode) -> None:
        """The node is about to lose what it has not flushed, and becomes a suspect."""
        self._lost.setdefault(node.node, []).append([entry.header.chain for entry in node.log.entries])

    def wiped(self, node: ProtocolNode) -> None:
        """The node has an empty disk, and owes nothing any more."""
        self._lost.pop(node.node, None)

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        raft = node.driver.raft
        if raft.role is not Role.LEADER or message.term != raft.term:
            return
        if isinstance(message, AppendResponse | HeartbeatResponse):
            account = self._account(node)
            if message.suspicion not in (0, account.told.get(message.sender)):
                account.told[message.sender], account.acknowledged[message.sender] = message.suspicion, 0
            counts = message.suspicion or not self._is_suspect(account, message.sender)
            if isinstance(message, AppendResponse) and not message.rejected and counts:
                known = account.acknowledged.get(message.sender, 0)
                account.acknowledged[message.sender] = max(known, message.match)

    def touched(self, node: ProtocolNode) -> None:
        """Check a node after one of its events."""
        raft = node.driver.raft
        if node.node in self._lost and not raft.is_suspect:
            self._trusted(node, self._lost.pop(node.node))
        if raft.role is not Role.LEADER:
            self._led.pop(node.node, None)
            return
        account = self._account(node)
        if raft.commit > account.commit:
            account.commit = raft.commit
            self._committed(raft, account)

    def _account(self, node: ProtocolNode) -> _Account:
        account = self._led.get(node.node)
        if account is None or not account.is_of(node.driver.raft):
            account = self._led[node.node] = _Account(node.driver.raft)
        return account

    def _is_suspect(self, account: _Account, voter: int) -> bool:
        """Return True if the voter is still the suspect of which the leader has heard."""
        number = account.told.get(voter, 0)
        return bool(number) and self._peers(voter).driver.raft._server.suspicion == number

    def _trusted(self, node: ProtocolNode, lost: list[list[int]]) -> None:
        if node.driver.raft.role is Role.LEADER:
            return  # elected by all voters: its log is the log of the shard
        committed, kept = self._invariants.committed, self._invariants.kept_by(node.log)
        for chains in lost:
            owed = min(len(chains), len(committed))
            while owed > kept and chains[owed - 1] != committed[owed - 1]:
                owed -= 1
            if owed > kept:
                self._fail(
                    "a node that lost something is a suspect",
                    f"node {node.node} lost entries up to {owed}, which are committed; it is no suspect any more, and "
                    f"holds them only up to {kept}",
                )
                return

    def _committed(self, raft: Raft, account: _Account) -> None:
        holders = {voter for voter, match in account.acknowledged.items() if match >= raft.commit}
        holders = {voter for voter in holders if not self._is_suspect(account, voter)} | {raft.node}
        if wrong := wrong_commit(raft, holders):
            self._fail("a majority has acknowledged", wrong)

    def _fail(self, invariant: str, what: str) -> None:
        if self._judges:
            self._invariants.fail(invariant, what)

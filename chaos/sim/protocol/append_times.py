"""Checks that the wrong clock of a minority does not date entries.

    upper bound    An entry is dated at most 5 s after the newest time that the clocks of a majority of voters may have
                   shown: of each voter, the fastest clock that it has had in the run. After a change of voters, a
                   leader that was told too few of their clocks goes on from the time that it agreed with the voters
                   before.
    lower bound    An entry is dated at most 5 s before the newest time that a majority of the clocks has reached that
                   the leader was told. A voter whose clock the leader was not told counts as behind all others.
    told           A voter tells the time of its own clock.

The clocks are those of the simulation, so the code that agrees on a time is not believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.sim.invariants import Invariants
from chaos.sim.protocol.node import ProtocolNode
from raft.core import HeartbeatResponse, RaftMessage, Role, VoteResponse
from raft.core.quorum import majority

# What the product promises (raft/cluster_clock.py), and 1 ms for rounding.
TOLERANCE_MS = 5_000 + 1
# A leader goes on with a told time for so long.
TOLD_LIFE_S = 600.0


class AppendTimes:
    """Checks the append times of one shard."""

    def __init__(self, invariants: Invariants) -> None:
        self._fail = invariants.fail
        # Node -> the largest offset of its clock so far, in ms.
        self._fastest: dict[int, int] = {}
        # Node -> (its process, voter -> (offset of the told clock in ms, time at which it was told in s)).
        self._told: dict[int, tuple[int, dict[int, tuple[float, float]]]] = {}
        # Node -> (its process, term, index up to which the entries of the leader were checked).
        self._checked: dict[int, tuple[int, int, int]] = {}
        # Node -> (its process, all sets of voters that it has known).
        self._voters: dict[int, tuple[int, list[tuple[int, ...]]]] = {}

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        if isinstance(message, HeartbeatResponse | VoteResponse) and message.wall_ms != node.wall_ms():
            self._fail("a node tells its own clock", f"node {node.node} tells {message.wall_ms}, not {node.wall_ms()}")

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        if isinstance(message, HeartbeatResponse | VoteResponse):
            life, told = self._told.get(node.node, (0, {}))
            if life != node.life:
                told = {}
            told[message.sender] = (message.wall_ms - node.true_ms(), node.true_ms() / 1000)
            self._told[node.node] = (node.life, told)

    def touched(self, node: ProtocolNode) -> None:
        """Check the entries that the node has appended as the leader in its last event."""
        offset = node.clock_off_ms
        self._fastest[node.node] = max(offset, self._fastest.get(node.node, offset))
        raft, log = node.driver.raft, node.log
        self._note_voters(node)
        if raft.role is not Role.LEADER:
            return
        life, term, checked = self._checked.get(node.node, (0, 0, 0))
        if (life, term) != (node.life, raft.term):
            # The first entry of a leader is its no-op, which it has just appended. Earlier ones are of others.
            checked = log.last_index - 1 if log.last_index and log.term(log.last_index) == raft.term else log.last_index
        for index in range(min(checked, log.last_index) + 1, log.last_index + 1):
            if log.term(index) == raft.term:
                self._check(node, index)
        self._checked[node.node] = (node.life, raft.term, log.last_index)

    def _check(self, node: ProtocolNode, index: int) -> None:
        if index > 1 and node.log.header(index).append_time_ms == node.log.header(index - 1).append_time_ms:
            return  # never earlier than the entry before it
        voters, now = sorted(node.driver.raft.configuration.voters), node.true_ms()
        offset = node.log.header(index).append_time_ms - now
        needed = majority(voters)
        newest = max(map(self._newest, self._voters[node.node][1]))
        if offset > newest + TOLERANCE_MS:
            self._fail(
                "append times follow a majority",
                f"leader {node.node} dates entry {index} {offset / 1000:,.1f} s ahead; the clocks of a majority of its "
                f"voters were at most {newest / 1000:,.1f} s ahead",
            )
        known = self._known(node, voters, now / 1000)
        if len(known) >= needed and len(voters) > 1 and offset < known[needed - 1] - TOLERANCE_MS:
            self._fail(
                "append times follow a majority",
                f"leader {node.node} dates entry {index} {-offset / 1000:,.1f} s behind; told clocks: {known} ms",
            )

    def _note_voters(self, node: ProtocolNode) -> None:
        life, known = self._voters.get(node.node, (0, []))
        voters = node.driver.raft.configuration.voters
        if life != node.life:
            known = []
            self._voters[node.node] = (node.life, known)
        if voters and voters not in known:
            known.append(voters)

    def _newest(self, voters: Sequence[int]) -> int:
        """Return the largest offset that the clocks of a majority of these voters may have reached, in ms."""
        fastest = sorted((self._fastest.get(voter, 0) for voter in voters), reverse=True)
        return fastest[majority(voters) - 1]

    def _known(self, node: ProtocolNode, voters: list[int], now_s: float) -> list[float]:
        """Return the offsets of the clocks that this leader knows, the largest first."""
        life, told = self._told.get(node.node, (0, {}))
        known: list[float] = [node.clock_off_ms] if node.node in voters else []
        if life == node.life:
            known += [
                offset
                for voter, (offset, at_s) in sorted(told.items())
                if voter in voters and voter != node.node and now_s - at_s < TOLD_LIFE_S
            ]
        return sorted(known, reverse=True)

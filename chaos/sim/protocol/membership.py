"""Transfers leadership and changes members in the protocol world. Each fault event causes one step of a change of
members, or one transfer of leadership.

    A change of members has three steps: a voter is removed, the removed node is added as a learner, and the learner is
    promoted to a voter.

For each step, the simulated operator sends a request to the leader. If the Raft core refuses the request, the step
counts as not done. A node with a wiped disk is removed and then added with its new incarnation. Sometimes the operator
sends a wrong request: to remove two voters at once, or to begin a step before the previous step is committed. The Raft
core must refuse wrong requests of both kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.engine.targets import leader_of
from chaos.sim.protocol.node import ProtocolNode, incarnation_of
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, decode_configuration, encode_configuration
from raft.core import Refusal
from store import EntryDraft, EntryKind, Header, StoreError

LEAST_VOTERS = 2
HASTE = 0.25


class _Change:
    """The proposal of a new configuration. `_Change` implements `raft.interfaces.Proposal`. No caller waits for the
    result of the proposal."""

    def __init__(self, configuration: ShardConfiguration) -> None:
        self.draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))

    def appended(self, header: Header) -> None:
        """Do nothing, because a configuration takes effect as soon as it is appended to the log."""

    def settled(self, committed: bool) -> None:
        """Do nothing when a configuration is committed, because the next step of a change of members reads the
        current configuration itself."""


class SimMembership:
    """The simulated operator who changes members and leaders."""

    def __init__(self, nodes: Sequence[ProtocolNode]) -> None:
        self._nodes = nodes

    def transfer(self, random: Random) -> bool:
        """Ask the leader to hand over leadership to a random node. Return True if the handover has begun."""
        leader = leader_of(self._nodes)
        if leader is None or leader.paused:
            return False
        to = random.choice([node.node for node in self._nodes if node is not leader])
        return leader.ask(lambda: leader.driver.transfer(to), Refusal)

    def change(self, random: Random) -> bool:
        """Ask the leader for the next step of a change of members. Return True if the leader accepted the step."""
        leader = leader_of(self._nodes)
        if leader is None or leader.paused:
            return False
        in_haste = random.random() < HASTE
        if in_haste:
            self._ask(leader, self._too_much(leader, random))
        taken = self._ask(leader, self._next(leader, random))
        if in_haste and leader.leads:
            self._ask(leader, self._next(leader, random))
        return taken

    def remove(self, node: ProtocolNode) -> bool:
        """Ask the leader to remove this member. Return True if the leader accepted the change."""
        leader = leader_of(self._nodes)
        if leader is None or leader.paused:
            return False
        return self._ask(leader, decode_configuration(leader.driver.configuration()).without(node.node))

    def _ask(self, leader: ProtocolNode, configuration: ShardConfiguration | None) -> bool:
        if configuration is None:
            return False
        change = _Change(configuration)
        return leader.ask(lambda: leader.driver.change(change, configuration.core), (Refusal, StoreError))

    def _too_much(self, leader: ProtocolNode, random: Random) -> ShardConfiguration | None:
        """Return a configuration without two of the voters, which the Raft core must refuse. Return None if the
        shard has too few voters."""
        now = decode_configuration(leader.driver.configuration())
        if len(now.voters) < LEAST_VOTERS + 1:
            return None
        first, second = random.sample(sorted(now.voters), 2)
        return now.without(first).without(second)

    def _next(self, leader: ProtocolNode, random: Random) -> ShardConfiguration | None:
        now = decode_configuration(leader.driver.configuration())
        strangers = [node.node for node in self._nodes if node.stranger and node.node in now.members]
        gone = [node for node in self._nodes if node.node not in now.members]
        if strangers:
            return now.without(strangers[0])
        if now.learners:
            return self._with_voter(now, leader, random)
        if gone:
            return self._with_learner(now, random.choice(gone))
        if len(now.voters) > LEAST_VOTERS:
            return now.without(random.choice(sorted(now.voters)))
        return None

    def _with_learner(self, now: ShardConfiguration, node: ProtocolNode) -> ShardConfiguration:
        if node.stranger:
            node.join()
        return now.with_learner(node.node, ConfiguredMember(incarnation_of(node.node, node.incarnation)))

    def _with_voter(self, now: ShardConfiguration, leader: ProtocolNode, random: Random) -> ShardConfiguration | None:
        """Return a configuration that promotes a random learner, or None if this learner is far behind the leader."""
        learner = random.choice(sorted(now.learners))
        progress = leader.driver.raft.progress.get(learner)
        if progress is None or progress.match + 50 < leader.log.last_index:
            return None
        return now.with_voter(learner)

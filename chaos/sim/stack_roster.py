"""Who belongs to the simulated cluster at the moment, by the newest configuration that a leader had.

    never started ──> waits to be added ──> member ──> removed           lost its disk: a stranger under its old name

The one idea: a node takes part by its number *and* its incarnation, so a wiped one is none of those that are named,
until it is added again. It must not know who changes that, or why.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.sim.node import StackNode
from chaos.sim.targets import leader_of
from raft.configuration_entry import GroupConfiguration


class Roster:
    """`nodes`: all that there are, spare ones included; the first `founders` of them begin the cluster."""

    def __init__(self, nodes: Sequence[StackNode], founders: int) -> None:
        self._nodes = nodes
        self._founders = founders
        self._newest: GroupConfiguration | None = None
        """As it was known last."""

    @property
    def present(self) -> list[StackNode]:
        """Those that were ever switched on, and not put away."""
        return [node for node in self._nodes if node.is_present]

    @property
    def configuration(self) -> GroupConfiguration | None:
        """The newest one that a leader has or had; None before anybody led."""
        leader = leader_of(self._nodes)
        if leader is not None and leader.replica is not None:
            self._newest = leader.replica.newest_configuration()
        return self._newest

    @property
    def is_settled(self) -> bool:
        """Whether a leader knows that its newest configuration is committed."""
        leader = leader_of(self._nodes)
        raft = leader.raft if leader is not None else None
        return raft is not None and raft.configuration_index <= raft.commit

    @property
    def voters(self) -> list[StackNode]:
        """All that are named as voters, strangers included."""
        configuration = self.configuration
        if configuration is None:
            return list(self._nodes[: self._founders])
        return [self._nodes[node - 1] for node in sorted(configuration.voters)]

    @property
    def members(self) -> list[StackNode]:
        """Voters and learners, as long as they have the disks by which they were added."""
        configuration = self.configuration
        if configuration is None:
            return list(self._nodes[: self._founders])
        members = sorted(configuration.members.items())
        return [self._nodes[node - 1] for node, member in members if self._is_known(node, member.incarnation)]

    @property
    def strangers(self) -> list[StackNode]:
        """Those that are named, and have lost the disks by which they were added."""
        configuration = self.configuration
        if configuration is None:
            return []
        members = sorted(configuration.members.items())
        return [self._nodes[node - 1] for node, member in members if not self._is_known(node, member.incarnation)]

    def is_member(self, node: int) -> bool:
        return any(member.node == node for member in self.members)

    def _is_known(self, node: int, incarnation: bytes) -> bool:
        return self._nodes[node - 1].incarnation == incarnation

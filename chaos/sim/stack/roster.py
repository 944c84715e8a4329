"""Determines the members of each shard of the simulated cluster from the newest configuration that a leader of the
shard has had.

    never started ──> waits to be added ──> member ──> removed           wiped disk: a stranger under its old id

A member is a node id together with an incarnation. A node with a wiped disk has a new incarnation, and is not a member
until an operator adds the node again. Shard 0 has a replica on every node of the cluster. A table in shard 0 lists the
other shards, and the first nodes of each shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from chaos.sim.engine.targets import leader_of
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import NodePart
from ledger.broker.broker_replica import BrokerReplica
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import ShardConfiguration


class Roster:
    """Determines the members of one shard. `nodes` has all nodes of the run, including spare nodes. The function
    `founders` returns the ids of the nodes on which the shard was created."""

    def __init__(self, shard: int, nodes: Sequence[StackNode], founders: Callable[[], Sequence[int]]) -> None:
        self.shard = shard
        self._nodes = nodes
        self._founders = founders
        # The newest configuration that a leader has had.
        self._newest: ShardConfiguration | None = None
        # The configuration before the newest one, until the newest one is committed.
        self._applied: ShardConfiguration | None = None

    @property
    def leader(self) -> NodePart | None:
        """The `NodePart` of the shard's leader in the newest term, or None if the shard has no leader."""
        return leader_of([node.part(self.shard) for node in self._nodes])

    @property
    def configuration(self) -> ShardConfiguration | None:
        """The newest configuration that a leader of the shard has had, or None if the shard has had no leader yet."""
        leader = self.leader
        if leader is not None and leader.replica is not None:
            self._newest = leader.replica.newest_configuration()
            self._applied = None if self._is_committed(leader) else leader.replica.membership.configuration
        return self._newest

    @property
    def is_settled(self) -> bool:
        """Whether the shard has a leader that knows that its newest configuration is committed."""
        leader = self.leader
        return leader is not None and self._is_committed(leader)

    @property
    def is_begun(self) -> bool:
        """Whether the shard has ever had a leader."""
        return self.configuration is not None

    @property
    def voters(self) -> list[StackNode]:
        """All nodes that the newest configuration names as voters. Nodes that have lost their disks (`strangers`)
        are included."""
        configuration = self.configuration
        return self._numbered(self._founders() if configuration is None else configuration.voters)

    @property
    def electorates(self) -> list[list[StackNode]]:
        """The sets of voters that can elect a leader now. The first set has the voters of the newest configuration.
        While the newest configuration is not committed, the second set has the voters of the configuration before
        the newest."""
        voters = self.voters
        before = voters if self._applied is None else self._numbered(self._applied.voters)
        return [voters] if before == voters else [voters, before]

    @property
    def named(self) -> list[StackNode]:
        """All voters and learners that the newest configuration names. Nodes that have lost their disks
        (`strangers`) are included."""
        configuration = self.configuration
        return self._numbered(self._founders() if configuration is None else configuration.members)

    @property
    def members(self) -> list[StackNode]:
        """The voters and learners that still have the disks with which they were added to the shard."""
        return [node for node in self.named if self._is_known(node)]

    @property
    def parts(self) -> list[NodePart]:
        """The `NodePart` of each member of this shard."""
        return [node.part(self.shard) for node in self.members]

    @property
    def strangers(self) -> list[StackNode]:
        """The nodes that the newest configuration names, but that have lost the disks with which they were added to
        the shard."""
        return [node for node in self.named if not self._is_known(node)]

    def is_member(self, node: int) -> bool:
        return any(member.node == node for member in self.members)

    def answers(self, node: StackNode) -> bool:
        """Return True if the node has the incarnation that the newest configuration contains. While the newest
        configuration is not committed, the node may also have the incarnation that the previous configuration
        contains for it."""
        named = [each.members.get(node.node) for each in (self._newest, self._applied) if each is not None]
        return not named or any(
            member is not None and member.incarnation == node.part(self.shard).incarnation for member in named
        )

    def _is_known(self, node: StackNode) -> bool:
        if self._newest is None:
            return True
        return node.part(self.shard).incarnation == self._newest.members[node.node].incarnation

    def _is_committed(self, leader: NodePart) -> bool:
        raft = leader.raft
        return raft is not None and raft.configuration_index <= raft.commit

    def _numbered(self, numbers: Iterable[int]) -> list[StackNode]:
        return [self._nodes[number - 1] for number in sorted(numbers)]


class Rosters:
    """Holds the rosters of all shards. The first `founders` nodes of `nodes` form the cluster at its first start,
    with `first_shards` shards."""

    def __init__(self, nodes: Sequence[StackNode], founders: int, first_shards: int) -> None:
        self._nodes = nodes
        self._first_shards = first_shards
        # The first nodes of each shard.
        self._table: dict[int, tuple[int, ...]] = {TOPICS_SHARD: tuple(range(1, founders + 1))}
        self._by_shard: dict[int, Roster] = {}

    @property
    def present(self) -> list[StackNode]:
        """All nodes that were ever started and have not been removed for good."""
        return [node for node in self._nodes if node.is_present]

    @property
    def first(self) -> Roster:
        """The roster of shard 0. All members of the cluster are members of shard 0."""
        return self.of(TOPICS_SHARD)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the existing shards."""
        for node in self._nodes:
            if (replica := node.replica) is not None:
                self._table.update(replica.state.shards)
        return sorted(self._table)

    @property
    def are_complete(self) -> bool:
        """Whether all shards exist that the cluster creates at its first start. A shard is created only while none
        of its nodes has lost its disk."""
        return len(self.numbers) >= self._first_shards

    def leader_of(self, shard: int) -> StackNode | None:
        """Return the node that leads the shard in the newest term, or None."""
        leader = self.of(shard).leader
        return next((node for node in self._nodes if leader is not None and node.node == leader.node), None)

    def of(self, shard: int) -> Roster:
        roster = self._by_shard.get(shard)
        if roster is None:
            roster = self._by_shard[shard] = Roster(shard, self._nodes, lambda: self._table[shard])
        return roster

    def leading(self, shard: int) -> BrokerReplica | None:
        """Return the replica of the shard's leader in the newest term, or None if the shard has no leader."""
        leader = self.of(shard).leader
        return None if leader is None else leader.replica

    def __iter__(self) -> Iterator[Roster]:
        return iter([self.of(shard) for shard in self.numbers])

    def is_in_all(self, node: int) -> bool:
        """Whether the node is a member of every shard."""
        return all(roster.is_member(node) for roster in self)

"""Who belongs to each shard of the simulated cluster at the moment, by the newest configuration that a leader had.

    never started ──> waits to be added ──> member ──> removed           lost its disk: a stranger under its old name

A node takes part by its number *and* its incarnation, so a wiped one is none of those that are named, until it is
added again. Shard 0 has all nodes of the cluster, and its table says which other shards there are, and on which nodes
they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from chaos.sim.engine.targets import leader_of
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import Part
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import ShardConfiguration


class Roster:
    """Of one shard. `nodes`: all that there are, spare ones included; `founders()`: the numbers of those on which the
    shard begins."""

    def __init__(self, shard: int, nodes: Sequence[StackNode], founders: Callable[[], Sequence[int]]) -> None:
        self.shard = shard
        self._nodes = nodes
        self._founders = founders
        # As it was known last.
        self._newest: ShardConfiguration | None = None
        # By the leader that had the newest one, as long as that one is not committed.
        self._applied: ShardConfiguration | None = None

    @property
    def leader(self) -> Part | None:
        """The node's part that leads, of the newest term."""
        return leader_of([node.part(self.shard) for node in self._nodes])

    @property
    def configuration(self) -> ShardConfiguration | None:
        """The newest one that a leader has or had; None before anybody led."""
        leader = self.leader
        if leader is not None and leader.replica is not None:
            self._newest = leader.replica.newest_configuration()
            self._applied = None if self._is_committed(leader) else leader.replica.membership.configuration
        return self._newest

    @property
    def is_settled(self) -> bool:
        """Whether a leader knows that its newest configuration is committed."""
        leader = self.leader
        return leader is not None and self._is_committed(leader)

    @property
    def is_begun(self) -> bool:
        """Whether anybody ever led."""
        return self.configuration is not None

    @property
    def voters(self) -> list[StackNode]:
        """All that are named as voters, strangers included."""
        configuration = self.configuration
        return self._numbered(self._founders() if configuration is None else configuration.voters)

    @property
    def electorates(self) -> list[list[StackNode]]:
        """The voters by the newest configuration, and by the one before as long as that may come back: the newest may
        be lost."""
        voters = self.voters
        before = voters if self._applied is None else self._numbered(self._applied.voters)
        return [voters] if before == voters else [voters, before]

    @property
    def named(self) -> list[StackNode]:
        """Voters and learners, strangers included."""
        configuration = self.configuration
        return self._numbered(self._founders() if configuration is None else configuration.members)

    @property
    def members(self) -> list[StackNode]:
        """Voters and learners, as long as they have the disks by which they were added."""
        return [node for node in self.named if self._is_known(node)]

    @property
    def parts(self) -> list[Part]:
        """Of the members, in this shard."""
        return [node.part(self.shard) for node in self.members]

    @property
    def strangers(self) -> list[StackNode]:
        """Those that are named, and have lost the disks by which they were added."""
        return [node for node in self.named if not self._is_known(node)]

    def is_member(self, node: int) -> bool:
        return any(member.node == node for member in self.members)

    def answers(self, node: StackNode) -> bool:
        """Whether it has the disk by which any configuration names it that may come to count."""
        named = [each.members.get(node.node) for each in (self._newest, self._applied) if each is not None]
        return not named or any(
            member is not None and member.incarnation == node.part(self.shard).incarnation for member in named
        )

    def _is_known(self, node: StackNode) -> bool:
        if self._newest is None:
            return True
        return node.part(self.shard).incarnation == self._newest.members[node.node].incarnation

    def _is_committed(self, leader: Part) -> bool:
        raft = leader.raft
        return raft is not None and raft.configuration_index <= raft.commit

    def _numbered(self, numbers: Iterable[int]) -> list[StackNode]:
        return [self._nodes[number - 1] for number in sorted(numbers)]


class Rosters:
    """Of all shards that there are, by number. The first `founders` of `nodes` begin the cluster, with `first_shards`
    shards."""

    def __init__(self, nodes: Sequence[StackNode], founders: int, first_shards: int) -> None:
        self._nodes = nodes
        self._first_shards = first_shards
        # Where each shard begins.
        self._table: dict[int, tuple[int, ...]] = {TOPICS_SHARD: tuple(range(1, founders + 1))}
        self._by_shard: dict[int, Roster] = {}

    @property
    def present(self) -> list[StackNode]:
        """Nodes that were ever switched on, and not put away."""
        return [node for node in self._nodes if node.is_present]

    @property
    def first(self) -> Roster:
        """Of shard 0: whoever belongs to the cluster."""
        return self.of(TOPICS_SHARD)

    @property
    def numbers(self) -> list[int]:
        """Of the shards."""
        for node in self._nodes:
            if (replica := node.replica) is not None:
                self._table.update(replica.state.shards)
        return sorted(self._table)

    @property
    def are_complete(self) -> bool:
        """Whether all shards with which the cluster begins are there. One begins only where nobody is lost."""
        return len(self.numbers) >= self._first_shards

    def of(self, shard: int) -> Roster:
        roster = self._by_shard.get(shard)
        if roster is None:
            roster = self._by_shard[shard] = Roster(shard, self._nodes, lambda: self._table[shard])
        return roster

    def __iter__(self) -> Iterator[Roster]:
        return iter([self.of(shard) for shard in self.numbers])

    def is_in_all(self, node: int) -> bool:
        """Whether that node has a part in every shard."""
        return all(roster.is_member(node) for roster in self)

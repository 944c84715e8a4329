"""When the keeper of the placement looks at the whole cluster, and when a balance ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.placement.keeper import RETURN_MS, WHOLE_LOOKS, PlacementKeeper
from ledger.broker.placement.plan import plan
from ledger.broker.placement.view import ClusterNode, PlacedReplica, PlacedShard, PlacementView
from ledger.errors import ShardShortError
from ledger.state.commands import BalanceReplicas, BeginReplicaMove, Command
from ledger.state.placement_table import NodeDrain, PlacementTable


def test_new_numbers_of_replicas_are_looked_at_at_once_and_others_seldom() -> None:
    keeper = PlacementKeeper(cast("Any", None), cast("Any", None), lambda: 0.0, replace_after_s=600)
    table = PlacementTable()
    replica = cast("Any", SimpleNamespace(state=SimpleNamespace(placement=table)))

    def has_work() -> bool:
        return keeper._has_work(replica)

    assert not any(has_work() for _ in range(3 * WHOLE_LOOKS)), "nobody wants anything"
    table.set_replicas(4)
    assert [has_work() for _ in range(WHOLE_LOOKS + 1)] == [True, *[False] * (WHOLE_LOOKS - 1), True]
    table.set_replicas(5, shard=2)
    assert [has_work(), has_work()] == [True, False]
    table.set_replicas(0, shard=2)
    assert [has_work(), has_work()] == [True, False]


async def proposed(silent_ms: float, *, drained: bool = False) -> list[Command]:
    """Return what the keeper proposes in a balance of three shards on the nodes 1 to 3. Node 4 is silent."""
    commands: list[Command] = []

    async def propose_checked(command: Command) -> None:
        commands.append(command)

    placed = {node: PlacedReplica(node, is_voter=True) for node in (1, 2, 3)}
    view = PlacementView(
        nodes={node: ClusterNode(node, "", silent_ms=silent_ms if node == 4 else 0) for node in (1, 2, 3, 4)},
        shards={number: PlacedShard(number, 1, placed) for number in (1, 2, 3)},
        wanted=3,
        is_balancing=True,
        drains={4: NodeDrain(4, False)} if drained else {},
    )
    keeper = PlacementKeeper(cast("Any", None), cast("Any", None), lambda: 0.0, replace_after_s=600)
    await keeper._begin_moves(cast("Any", SimpleNamespace(propose_checked=propose_checked)), view)
    return commands


class Moving:
    """The shards of a cluster in which only moves change the members. The leaders of the shards refuse removals as
    `MemberChanges.remove` does. Implements what a keeper uses of `PlacementCalls` for the steps of moves."""

    def __init__(self, placed: dict[int, list[int]], nodes: int, **wishes: Any) -> None:
        self.placed = placed
        self.table = PlacementTable()
        self._nodes = {node: ClusterNode(node, f"n{node}:1") for node in range(1, nodes + 1)}
        self._wishes = wishes

    def view(self) -> PlacementView:
        shards = {0: [*self._nodes], **self.placed}
        return PlacementView(
            nodes=self._nodes,
            shards={
                shard: PlacedShard(shard, voters[-1], {node: PlacedReplica(node, is_voter=True) for node in voters})
                for shard, voters in shards.items()
            },
            wanted=self.table.replicas,
            moves={move.shard: move for move in self.table.moves},
            **self._wishes,
        )

    async def run(self) -> None:
        """Make moves until none is left."""
        keeper = PlacementKeeper(cast("Any", None), cast("Any", self), lambda: 0.0, replace_after_s=600)
        for _ in range(100):
            view = self.view()
            for move in self.table.moves:
                if await keeper._take_step(move, view.shards[move.shard], view):
                    self.table.end(move.shard)
            for move in plan(self.view()).moves:
                self.table.begin(move)
            if not self.table.moves:
                return
        raise AssertionError(f"after 100 looks, these moves have not ended: {self.table.moves}")

    async def add_replica(self, shard: int, node: int, address: str) -> None:
        self.placed[shard].append(node)  # it is a voter at once, and leads

    async def remove_replica(self, shard: int, node: int) -> None:
        voters = self.placed[shard]
        if len(voters) - 1 < self.table.needed_without(shard, node, voters):
            raise ShardShortError(f"shard {shard} would have {len(voters) - 1} replicas without node {node}")
        voters.remove(node)


async def test_shards_with_two_replicas_leave_a_drained_node() -> None:
    """Five nodes, of which node 3 was removed by force."""
    cluster = Moving({1: [1, 2], 2: [1, 2, 4]}, 5, drains={1: NodeDrain(1, removes=False)})
    await cluster.run()
    assert sorted(map(len, cluster.placed.values())) == [2, 3]
    assert not any(1 in voters for voters in cluster.placed.values())


async def test_shards_with_one_replica_are_balanced() -> None:
    """A cluster of one node to which others were added."""
    cluster = Moving({shard: [1] for shard in range(1, 7)}, 3, is_balancing=True)
    await cluster.run()
    assert sorted(cluster.placed.values()) == [[1], [1], [2], [2], [3], [3]]


async def test_a_balance_waits_a_little_for_a_node_that_is_started_again() -> None:
    assert await proposed(1.0) == []
    (move,) = await proposed(0)
    assert isinstance(move, BeginReplicaMove)
    assert move.to == 4


@pytest.mark.parametrize(("silent_ms", "drained"), [(RETURN_MS, False), (1.0, True)])
async def test_a_balance_ends_without_a_node_that_gets_no_replicas(silent_ms: float, drained: bool) -> None:
    assert await proposed(silent_ms, drained=drained) == [BalanceReplicas(False)]


def test_a_node_is_a_node_of_the_cluster_until_its_removal_is_committed() -> None:
    """The leader of shard 0 has appended a configuration without node 2."""
    everybody = {node: SimpleNamespace(address=f"n{node}:1") for node in (1, 2, 3)}
    newest = SimpleNamespace(members={node: everybody[node] for node in (1, 3)})
    membership = SimpleNamespace(configuration=SimpleNamespace(members=everybody), addresses=dict)
    replica = cast("Any", SimpleNamespace(newest_configuration=lambda: newest, membership=membership))
    keeper = PlacementKeeper(
        cast("Any", None), cast("Any", SimpleNamespace(rooms=dict)), lambda: 0.0, replace_after_s=600
    )
    assert sorted(keeper._nodes(replica)) == [1, 2, 3]
    membership.configuration = newest
    assert sorted(keeper._nodes(replica)) == [1, 3]

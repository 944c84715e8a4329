"""When the keeper of the placement looks at the whole cluster, and when a balance ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.placement.keeper import RETURN_MS, WHOLE_LOOKS, PlacementKeeper
from ledger.broker.placement.view import ClusterNode, PlacedReplica, PlacedShard, PlacementView
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


async def test_a_balance_waits_a_little_for_a_node_that_is_started_again() -> None:
    assert await proposed(1.0) == []
    (move,) = await proposed(0)
    assert isinstance(move, BeginReplicaMove)
    assert move.to == 4


@pytest.mark.parametrize(("silent_ms", "drained"), [(RETURN_MS, False), (1.0, True)])
async def test_a_balance_ends_without_a_node_that_gets_no_replicas(silent_ms: float, drained: bool) -> None:
    assert await proposed(silent_ms, drained=drained) == [BalanceReplicas(False)]

"""Finds the leaders of all shards."""

from __future__ import annotations

from cluster.node.formation.first_voters import in_turn
from ledgermq import AsyncAdmin

NODES = [1, 2, 3]


async def leaders(admin: AsyncAdmin) -> dict[int, int]:
    """Return the leader of each shard. If two nodes call themselves leader, the node with the newer term counts."""
    led = [
        (shard.term, shard.shard, shard.leader)
        for node in await admin.cluster()
        for shard in node.shards
        if shard.role == "leader"
    ]
    return {shard: leader for _, shard, leader in sorted(led)}


async def all_lead_in_turn(admin: AsyncAdmin, shards: int) -> bool:
    return await leaders(admin) == {shard: in_turn(shard, NODES) for shard in range(shards)}

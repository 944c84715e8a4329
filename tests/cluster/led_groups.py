"""Who leads the groups of three nodes."""

from __future__ import annotations

from cluster.founding import in_turn
from ledger import AsyncAdmin

NODES = [1, 2, 3]


async def leaders(admin: AsyncAdmin) -> dict[int, int]:
    """Of each group, as its own leader says: the one of the newest term."""
    led = [
        (group.term, group.group, group.leader)
        for node in await admin.cluster()
        for group in node.groups
        if group.role == "leader"
    ]
    return {group: leader for _, group, leader in sorted(led)}


async def all_lead_in_turn(admin: AsyncAdmin, groups: int) -> bool:
    return await leaders(admin) == {group: in_turn(group, NODES) for group in range(groups)}

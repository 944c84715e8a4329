"""A shard that an operator adds has its replicas in different machine rooms."""

from __future__ import annotations

import pytest

from ledgermq import AsyncAdmin
from tests.cluster.fleet import MakeFleet

pytestmark = pytest.mark.real


async def test_a_new_shard_is_in_all_rooms(make_fleet: MakeFleet) -> None:
    rooms = {1: "a", 2: "a", 3: "a", 4: "b", 5: "c"}
    fleet = make_fleet(5)
    for node, room in rooms.items():
        fleet.override(node, room=room)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        for _ in range(2):
            shard = await admin.add_shard()
            nodes = [member.node for member in (await admin.members(shard=shard, timeout_ms=30_000)).members]
            assert {rooms[node] for node in nodes} == {"a", "b", "c"}

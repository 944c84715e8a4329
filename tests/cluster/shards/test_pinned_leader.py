"""Tests a pinned leader on real nodes: it leads instead of the preferred leader, and again after each node was down."""

from __future__ import annotations

import pytest

from ledgermq import AsyncAdmin
from tests.cluster.fleet import MakeFleet
from tests.cluster.led_shards import all_lead_in_turn, leaders
from tests.cluster.scrape import scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

SHARDS = 2


async def test_a_pinned_node_leads_whenever_it_is_up(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")
        members = await admin.members(shard=1)
        assert (members.leader, members.preferred_leader, members.pinned_leader) == (2, 2, 0)
        assert members.preference_ms == 8 * 10 * 25

        assert await admin.transfer_leadership(3, shard=1, pin=True) == 3
        members = await admin.members(shard=1)
        assert (members.leader, members.preferred_leader, members.pinned_leader) == (3, 3, 3)

        async def led_by(*nodes: int) -> bool:
            return (await leaders(admin)).get(1) in nodes

        async def pins() -> tuple[float, float]:
            """Return what the node reports that leads the shard."""
            now = await scrape(fleet.http((await leaders(admin))[1]))
            return now["ledgermq_pinned_leaders"], now["ledgermq_pinned_leaders_away"]

        await fleet.stop(3)
        await eventually(lambda: led_by(1, 2), "another node leads while the pinned node is down")
        assert (await admin.members(shard=1)).pinned_leader == 3
        assert await pins() == (1, 1), "the leader reports that it leads in place of the pinned node"
        await fleet.start(3)
        await eventually(lambda: led_by(3), "the pinned node leads again", deadline_s=30)
        assert await pins() == (1, 0)

        await fleet.stop()
        await fleet.start()
        await eventually(lambda: led_by(3), "and after a restart of all nodes", deadline_s=30)

        await admin.unpin_leader(shard=1)
        await eventually(lambda: led_by(2), "without the pin the preferred leader leads", deadline_s=30)
        assert (await admin.members(shard=1)).pinned_leader == 0


async def test_the_pin_ends_when_its_node_is_removed(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")
        await admin.pin_leader(3, shard=1)
        await admin.remove_node(3, shard=1, force=True)
        members = await eventually(lambda: admin.members(shard=1), "shard 1 has a leader")
        assert (members.pinned_leader, members.preferred_leader) == (0, 2)

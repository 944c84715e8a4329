"""Tests nodes in machine rooms: members consume queues whose leader is in their own room."""

from __future__ import annotations

from functools import partial

from ledgermq import AsyncAdmin, AsyncGroupConsumer
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.led_shards import all_lead_in_turn
from tests.cluster.waiter import eventually, until

ROOMS = {1: "north", 2: "south", 3: "south"}
SHARDS = 3
QUEUES = 6


def member(fleet: Fleet, strategy: str, room: str) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(
        "orders",
        group=strategy,
        strategy=strategy,
        room=room,
        bootstrap_servers=fleet.bootstrap,
        max_attempts=1,
        max_wait_ms=50,
    )


async def test_members_get_the_queues_of_their_room_and_others_only_where_the_strategy_says_so(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet(shards=SHARDS)
    for node, room in ROOMS.items():
        fleet.override(node, room=room)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "each shard is led by whose turn it is")
        shards = (await admin.create_topic("orders", QUEUES)).shards
    near = {
        "north": [queue for queue, shard in enumerate(shards) if shard == 0],
        "south": [queue for queue, shard in enumerate(shards) if shard != 0],
    }
    assert list(map(len, near.values())) == [2, 4]
    for strategy, left in (("machine_room", near["north"]), ("nearest_machine_room", list(range(QUEUES)))):
        async with member(fleet, strategy, "north") as north:
            async with member(fleet, strategy, "south") as south:
                await until(partial(has, north, near["north"]), "north has its own")
                await until(partial(has, south, near["south"]), "south has its own")
            await until(partial(has, north, left), "south has left its queues")


def has(consumer: AsyncGroupConsumer, queues: list[int]) -> bool:
    return [place.queue for place in consumer.assignment] == queues

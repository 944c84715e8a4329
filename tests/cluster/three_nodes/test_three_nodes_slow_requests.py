"""A node records slow requests, and says where their time went."""

from __future__ import annotations

import asyncio
import json
import subprocess

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, SlowRequest
from tests.cluster.cli.command import run
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.scrape import scrape

LIMIT_MS = 40.0


async def started(make_fleet: MakeFleet, **settings: object) -> tuple[Fleet, dict[int, GatedDisk]]:
    disks = {node: GatedDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks, flush="sync", **settings)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("orders", queues=2)
    await fleet.level()
    return fleet, disks


async def kept(fleet: Fleet, node: int, method: str) -> list[SlowRequest]:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        (answer,) = await admin.slow_requests(node=node)
    assert answer.error == ""
    return [each for each in answer.requests if each.method == method]


async def test_a_send_that_waits_for_followers_says_so(make_fleet: MakeFleet) -> None:
    fleet, disks = await started(make_fleet, slow_request_ms=LIMIT_MS)
    leader = await fleet.leader()
    held = [node for node in fleet.nodes if node != leader]
    before = await kept(fleet, leader, "Produce")
    async with AsyncProducer(fleet.bootstrap, client_id="billing") as producer:
        await producer.send("orders", b"quick", queue=1)
        for node in held:
            disks[node].hold()
        sending = asyncio.create_task(producer.send("orders", b"slow", queue=1))
        await asyncio.sleep(5 * LIMIT_MS / 1000)
        for node in held:
            disks[node].release()
        await sending
        found = [each for each in await kept(fleet, leader, "Produce") if each not in before]
    slow = max(found, key=lambda each: each.total_ms)
    assert (slow.topic, slow.queue, slow.client.name, slow.error) == ("orders", 1, "billing", "")
    assert slow.slowest_part == "replication"
    assert abs(sum(part.ms for part in slow.parts) - slow.total_ms) < 0.001
    (commit,) = [part.ms for part in slow.parts if part.name == "commit"]
    assert commit >= LIMIT_MS
    assert sorted(each.node for each in slow.followers) == held
    first = min(each.ms for each in slow.followers if each.ms is not None)
    assert slow.flush_ms is not None
    assert slow.flush_ms < first <= commit
    metrics = await scrape(fleet.http(leader))
    assert metrics.of("ledgermq_slow_requests_total", kind="produce", part="replication") >= 1


async def test_quick_requests_and_long_polls_are_not_recorded(make_fleet: MakeFleet) -> None:
    fleet, _ = await started(make_fleet, slow_request_ms=250)
    async with (
        AsyncProducer(fleet.bootstrap) as producer,
        AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap) as consumer,
    ):
        receiving = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0.6)  # the fetches wait for more than twice the limit
        await producer.send("orders", b"x")
        await receiving
    for node in fleet.nodes:
        assert await kept(fleet, node, "Fetch") == []


async def test_calls_of_groups_are_recorded_with_their_group(make_fleet: MakeFleet) -> None:
    fleet, _ = await started(make_fleet, slow_request_ms=0.01)
    async with (
        AsyncProducer(fleet.bootstrap) as producer,
        AsyncGroupConsumer("orders", group="billing", bootstrap_servers=fleet.bootstrap) as consumer,
    ):
        await producer.send("orders", b"x", queue=0)
        await anext(consumer)
    leader = await fleet.leader()
    joins = await kept(fleet, leader, "ConsumerGroups/Join")
    assert {each.consumer_group for each in joins} == {"billing"}
    assert all(abs(sum(part.ms for part in each.parts) - each.total_ms) < 0.001 for each in joins)
    assert any(each.index and {part.name for part in each.parts} >= {"work", "write", "commit"} for each in joins)
    assert await kept(fleet, leader, "ConsumerGroups/AwaitAssignment") == []


async def test_the_command_shows_them_and_names_nodes_that_do_not_answer(make_fleet: MakeFleet) -> None:
    fleet, _ = await started(make_fleet, slow_request_ms=0.01)
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send("orders", b"x", queue=0)
    addresses = ",".join(fleet.bootstrap)
    shown = json.loads((await command("--bootstrap", addresses, "--format", "json")).stdout)
    assert any(each["topic"] == "orders" and each["method"] == "Produce" for each in shown["requests"])
    done = await command("--bootstrap", addresses, "--slowest")
    assert b"orders:0" in done.stdout
    assert b"commit" in done.stdout
    done = await command("--bootstrap", addresses, "--threshold", "3600000")
    assert b"record requests of 0.01 ms or more" in done.stderr

    stopped = await fleet.follower()
    await fleet.stop(stopped)
    done = await command("--bootstrap", addresses, "--format", "json", status=1)
    assert [each["node"] for each in json.loads(done.stdout)["unanswered"]] == [stopped]


async def command(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(run, "debug", "slow", *arguments, status=status)

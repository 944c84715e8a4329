"""Two of three nodes are put back to an old copy of their directories, and started first. They elect each other and
commit other entries. When the third node comes back, both sides say that the logs contradict each other, and refuse
writes until an operator has removed one side."""

from __future__ import annotations

import shutil

import pytest

from cluster.health import health_of, rows_of
from ledger.errors import DivergedError, LedgerError
from ledgermq import AsyncAdmin
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import is_ready, not_ready, reason_not_ready, scrape
from tests.cluster.waiter import eventually

THIRD = 3


async def send(fleet: Fleet, topic: int, count: int, *, producer_id: int, size: int = 100) -> None:
    """Send batches one by one."""
    leader = await fleet.leader()
    for number in range(count):
        batch = sample_batch(topic, [bytes([producer_id]) * size], producer_id=producer_id, first_sequence=number)
        assert error_of(await fleet.produce(leader, batch)) is None


async def restart(fleet: Fleet, times: int, *nodes: int) -> None:
    """Restart these nodes, so that later entries have newer terms."""
    for _ in range(times):
        await fleet.stop()
        await fleet.start(*nodes)
        await fleet.leader()


async def put_back(fleet: Fleet, topic: int, restarts_before: int, restarts_after: int) -> None:
    """Write a history, put nodes 1 and 2 back before its end, let them write another history, and start node 3."""
    await send(fleet, topic, 3, producer_id=7)
    await fleet.level()
    await fleet.stop()
    for node in (1, 2):
        shutil.copytree(fleet.data(node), fleet.directory / f"copy-{node}")
    await fleet.start()
    await restart(fleet, restarts_before)
    await send(fleet, topic, 20, producer_id=8)
    await fleet.level()
    await fleet.stop()

    for node in (1, 2):
        shutil.rmtree(fleet.data(node))
        shutil.move(fleet.directory / f"copy-{node}", fleet.data(node))
    await fleet.start(1, 2)
    await restart(fleet, restarts_after, 1, 2)
    await send(fleet, topic, 30, producer_id=9, size=150)
    await fleet.start(THIRD)


async def diverged(fleet: Fleet) -> dict[int, str]:
    """Return what each node says, once node 3 and the leader of the other two say that their logs have diverged."""

    async def both() -> dict[int, str]:
        statuses = await fleet.statuses()
        said = {node: status.diverged for node, status in statuses.items() if status.diverged}
        leaders = [node for node, status in statuses.items() if status.role == "leader"]
        return said if THIRD in said and leaders and leaders[0] in said and leaders[0] != THIRD else {}

    return await eventually(both, "both sides say that their logs contradict each other", deadline_s=40)


async def leader_of_two(fleet: Fleet) -> int:
    async def led() -> int:
        statuses = await fleet.statuses()
        return next((node for node in (1, 2) if statuses[node].role == "leader"), 0)

    return await eventually(led, "node 1 or 2 leads")


@pytest.mark.parametrize(
    ("restarts_before", "restarts_after"), [(0, 0), (3, 0), (0, 3)], ids=["the same term", "older terms", "newer terms"]
)
async def test_two_nodes_with_an_old_copy(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture, restarts_before: int, restarts_after: int
) -> None:
    """Before, all nodes were ready and nothing was logged, or only the followers said that their disks refused writes.

    "older terms": the copies know only terms from before the lost history, so node 3 would be elected."""
    fleet = make_fleet(3, spread_leaders=False)
    await fleet.start()
    topic = await fleet.create_topic()
    await put_back(fleet, topic, restarts_before, restarts_after)

    said = await diverged(fleet)
    for node in said:
        await reason_not_ready(fleet.http(node), "the replicas of shard 0 have diverged")
        assert (await scrape(fleet.http(node))).of("ledgermq_raft_diverged", shard="0") >= 1
    lines = [line for line in caplog.messages if "have diverged" in line]
    assert 2 <= len(lines) <= 3, "once on each node, and then at most once a minute"
    async with AsyncAdmin(fleet.bootstrap) as admin:
        rows = {row.node: row for row in rows_of(list(await admin.cluster()))}
        assert all("have diverged" in str(rows[node].diverged) for node in said)
        assert health_of(list(rows.values())).status == "unavailable"
        leader = await leader_of_two(fleet)
        refused = error_of(await fleet.produce(leader, sample_batch(topic, producer_id=10)))
        assert type(refused) is DivergedError
        assert not refused.retriable
        assert "remove-node" in refused.message
        assert "OPERATING.md" in refused.message
        with pytest.raises(DivergedError):
            await admin.create_topic("another")
        assert error_of(await fleet.fetch(THIRD, topic, 0)) is None, "its messages can be read"
        await the_way_out(fleet, admin)
    await send(fleet, topic, 3, producer_id=11)
    await fleet.level()
    assert all([await is_ready(fleet.http(node)) for node in fleet.nodes])
    assert {status.diverged for status in (await fleet.statuses()).values()} == {""}


async def test_the_logs_of_a_majority_are_given_up(make_fleet: MakeFleet) -> None:
    """The other way out: node 3 is right. Nodes 1 and 2 lose their logs and keep their votes, so node 3 is elected."""
    fleet = make_fleet(3, spread_leaders=False)
    await fleet.start()
    topic = await fleet.create_topic()
    await put_back(fleet, topic, 0, 3)
    await diverged(fleet)
    await fleet.stop()
    for node in (1, 2):
        for path in (fleet.data(node) / "shard-0").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "vote":
                path.unlink()
    await fleet.start()
    assert await fleet.leader() == THIRD
    await send(fleet, topic, 3, producer_id=11)
    await fleet.level()
    assert all([await is_ready(fleet.http(node)) for node in fleet.nodes])
    fetched = await fleet.fetch(1, topic, 3)
    values = [body for batch in fetched.batches for body in [batch.body] if bytes([8]) * 100 in body]
    assert len(values) == 20, "the messages that only node 3 had"


async def the_way_out(fleet: Fleet, admin: AsyncAdmin) -> None:
    """Remove node 3, empty its directory, and add it again."""
    await admin.remove_node(THIRD, force=True)
    await reason_not_ready(fleet.http(THIRD), "was removed")

    async def two_are_ready() -> bool:
        return not await not_ready(fleet.http(1)) and not await not_ready(fleet.http(2))

    await eventually(two_are_ready, "nodes 1 and 2 take writes again")
    await fleet.stop(THIRD)
    shutil.rmtree(fleet.data(THIRD))
    fleet.override(THIRD, join=True, peers={})
    await fleet.start(THIRD)

    async def added() -> bool:
        try:
            await admin.add_node(THIRD, fleet.address(THIRD), promote=True)
        except LedgerError as error:
            if not error.retriable:
                raise
            return False
        return True

    await eventually(added, "node 3 is a voter again")

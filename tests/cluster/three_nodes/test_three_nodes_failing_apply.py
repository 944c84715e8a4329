"""A fault of the program that shows when an entry is applied: the node stays up, and stores nothing half done."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.fleet import Fleet, sample_batch
from tests.cluster.scrape import reason_not_ready, scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("failing"))
    await fleet.start()
    await fleet.leader()
    yield fleet
    await fleet.close()


async def test_a_node_whose_program_fails_at_an_entry_stays_up_and_keeps_no_half_applied_state(fleet: Fleet) -> None:
    topic = await fleet.create_topic()
    leader, faulty = await fleet.leader(), await fleet.follower()
    await fleet.produce(leader, sample_batch(topic, first_sequence=0))
    await fleet.level()
    replica = fleet.running[faulty]._shards.first.replica
    assert replica is not None
    topics = replica.state.topics

    def create_half(name: str, *rest: object) -> None:
        topics._next_id += 1000
        raise KeyError(name)

    topics.create = create_half  # type: ignore[method-assign, assignment]
    await fleet.create_topic("payments")
    assert "this program failed at it (KeyError)" in await reason_not_ready(fleet.http(faulty), "no more entries")
    assert (await scrape(fleet.http(faulty))).of("ledgermq_raft_stopped", shard="0") == 1
    assert "KeyError" in (await fleet.status(faulty)).stopped

    await fleet.produce(leader, sample_batch(topic, first_sequence=2))
    assert (await fleet.fetch(faulty, topic, 0)).end_offset == 2, "the node is read up to the entry before"
    assert replica.driver.applied < (await fleet.status(leader)).applied

    await fleet.stop(faulty)
    await fleet.start(faulty)  # with a program without the fault
    await fleet.level()
    states = {node: running._shards.first.replica for node, running in fleet.running.items()}

    async def equal() -> bool:
        return len({each.state.digest() for each in states.values() if each is not None}) == 1

    await eventually(equal, "the restarted node has the state of the others")

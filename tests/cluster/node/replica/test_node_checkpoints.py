"""A start continues from the checkpoint, and rebuilds every index that does not match the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from store import ConsumeQueue
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import scrape
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

MESSAGES = 300


async def produce(fleet: Fleet, first: int, count: int) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        for number in range(first, first + count, 20):
            await producer.send_many("t", [b"%d" % each for each in range(number, number + 20)])


async def consume(fleet: Fleet, count: int) -> list[int]:
    async with AsyncConsumer("t", bootstrap_servers=fleet.bootstrap) as consumer:
        found: list[int] = []
        while len(found) < count:
            found += [int(message.value) for message in await consumer.getmany()]
    return sorted(found)


@pytest_asyncio.fixture
async def fleet(make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """One node, stopped in order, with some messages."""
    monkeypatch.setattr("cluster.node.replica.upkeep.INTERVAL_S", 3600.0)
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("t", 2)
    await produce(fleet, 0, MESSAGES)
    await fleet.stop()
    return fleet


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of messages that each call added to a ConsumeQueue."""
    counts: list[int] = []
    put = ConsumeQueue.put

    def counted(self: ConsumeQueue, base: int, position: int, size: int, tags: np.ndarray | None, count: int) -> None:
        counts.append(count)
        put(self, base, position, size, tags, count)

    monkeypatch.setattr(ConsumeQueue, "put", counted)
    return counts


def shard(fleet: Fleet) -> Path:
    return fleet.data(1) / "shard-0"


async def ignored(fleet: Fleet) -> float:
    """Return how often node 1 found a damaged checkpoint or index since it was started."""
    return (await scrape(fleet.http(1)))["ledgermq_checkpoints_ignored_total"]


def index_files(fleet: Fleet) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(shard(fleet).glob("queues/*/*"))}


async def test_after_an_orderly_stop_nothing_is_indexed_again(fleet: Fleet, indexed: list[int]) -> None:
    await fleet.start()
    await fleet.leader()
    assert await consume(fleet, MESSAGES) == list(range(MESSAGES))
    assert indexed == []
    await produce(fleet, MESSAGES, 40)
    assert await consume(fleet, MESSAGES + 40) == list(range(MESSAGES + 40))


async def test_after_a_kill_only_what_came_since_the_checkpoint_is(fleet: Fleet, indexed: list[int]) -> None:
    checkpoint = (shard(fleet) / "checkpoint").read_bytes()
    await fleet.start()
    await fleet.leader()
    await produce(fleet, MESSAGES, 60)
    await fleet.stop()
    (shard(fleet) / "checkpoint").write_bytes(checkpoint)
    (shard(fleet) / "clean").unlink()
    indexed.clear()
    await fleet.start()
    await fleet.leader()
    assert await consume(fleet, MESSAGES + 60) == list(range(MESSAGES + 60))
    assert sum(indexed) == 60


async def test_checkpoints_are_made_while_a_node_runs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.node.replica.upkeep.INTERVAL_S", 0.01)
    before = (shard(fleet) / "checkpoint").read_bytes()
    await fleet.start()
    await fleet.leader()
    await produce(fleet, MESSAGES, 60)
    await until(lambda: (shard(fleet) / "checkpoint").read_bytes() != before, "a checkpoint is made")


def delete(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def spoil_all(path: Path) -> None:
    path.write_bytes(b"?" * 3)


@pytest.mark.parametrize("spoil", [delete, cut_short, flip, spoil_all])
@pytest.mark.parametrize("which", ["queues/*/*", "positions/*", "checkpoint"])
async def test_an_index_that_is_not_as_it_was_is_rebuilt(
    fleet: Fleet, which: str, spoil: Callable[[Path], None], indexed: list[int]
) -> None:
    before = index_files(fleet)
    spoil(sorted(shard(fleet).glob(which))[-1])
    await fleet.start()
    await fleet.leader()
    assert await consume(fleet, MESSAGES) == list(range(MESSAGES))
    assert sum(indexed) == MESSAGES
    # A checkpoint that is missing is no fault that the node could tell.
    is_told = not (which == "checkpoint" and spoil is delete)
    due = "checkpoint was damaged" if which == "checkpoint" else "index files did not match the checkpoint"
    async with AsyncAdmin(fleet.bootstrap) as admin:
        (replica,) = (await admin.cluster())[0].shards
    assert (due in replica.rebuilt) if is_told else not replica.rebuilt
    assert await ignored(fleet) == is_told
    await fleet.stop()
    assert index_files(fleet) == before
    indexed.clear()
    await fleet.start()
    assert indexed == []
    assert await ignored(fleet) == 0


async def test_garbage_behind_an_index_is_nobodys(fleet: Fleet, indexed: list[int]) -> None:
    for path in index_files(fleet):
        path.write_bytes(path.read_bytes() + b"garbage" * 20)
    await fleet.start()
    await fleet.leader()
    assert indexed == []
    await produce(fleet, MESSAGES, 20)
    assert await consume(fleet, MESSAGES + 20) == list(range(MESSAGES + 20))

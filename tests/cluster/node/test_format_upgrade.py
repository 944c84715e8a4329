"""A cluster of format 1, written by ledgermq 0.1, is started by this version: nothing is lost, and no new cluster
forms.

`tests/store/data/format-1.tar.gz` has the data directories of three nodes with two shards. Version 0.1 made them:
topic `orders` with two queues and 8,500 messages (1,000 with the key `customer-7`), of which the oldest segments were
trimmed, and consumer group `billing` at offset 500 of queue 0. The nodes were stopped in order.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from store import DirectoryUpgradeError
from tests.cluster.fleet import Fleet

pytestmark = pytest.mark.real

OLD = Path(__file__).resolve().parents[2] / "store" / "data" / "format-1.tar.gz"
SETTINGS = {
    "cluster": "old",
    "segment_bytes": 1_179_648,
    "max_message_bytes": 65_536,
    "shards": 2,
    "retention_hours": 0,
}


@pytest.fixture
def old(make_fleet: Callable[..., Fleet]) -> Fleet:
    fleet = make_fleet(**SETTINGS)
    with tarfile.open(OLD) as archive:
        archive.extractall(fleet.directory, filter="data")
    return fleet


async def test_everything_is_there_and_the_cluster_goes_on(old: Fleet) -> None:
    await asyncio.gather(*(old.start(node) for node in old.nodes))
    async with AsyncAdmin(old.bootstrap) as admin, AsyncConsumer("orders", bootstrap_servers=old.bootstrap) as consumer:
        begins, ends = await consumer.beginning_offsets(), await consumer.end_offsets()
        assert {place.queue: (begins[place], ends[place]) for place in ends} == {0: (3835, 4780), 1: (2394, 3720)}
        described = await admin.describe_consumer_group("billing")
        assert {queue.queue: queue.offset for queue in described.queues if queue.offset is not None}[0] == 500
        async with AsyncProducer(old.bootstrap) as producer:
            assert (await producer.send("orders", b"after the upgrade", queue=0)).offset == 4780
    for node in old.nodes:
        names = {path.name for path in old.data(node).iterdir()}
        assert {"shard-0", "shard-1"} <= names
        assert not any(name.startswith("group-") for name in names)
        assert json.loads((old.data(node) / "identity.json").read_text())["format"] == 2


async def test_a_node_that_cannot_upgrade_does_not_start_as_an_empty_one(old: Fleet) -> None:
    (old.data(1) / "shard-1").mkdir()
    with pytest.raises(DirectoryUpgradeError, match="group-1"):
        await old.start(1)
    assert (old.data(1) / "group-0" / "log").is_dir()
    assert not (old.data(1) / "shard-0").exists()

"""Nodes with other values of `write`, and with another directory for the indexes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import get_args

import pytest

from ledgermq import AsyncConsumer, AsyncProducer
from store import DirectoryInUseError, WriteMode, WrongDirectoryError
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.node_process import NodeProcess
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

LOST = "entries after index"


@pytest.mark.parametrize("mode", get_args(WriteMode))
async def test_messages_go_through_several_segments_and_a_restart(make_fleet: MakeFleet, mode: WriteMode) -> None:
    fleet = make_fleet(3, write=mode, staged_segments=2, warm=True, lock_memory=True, read_ahead="random")
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    values = [bytes([number % 256]) * 40_000 for number in range(160)]
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", values)
    status = await fleet.level()
    assert status.end_position > 6 << 20, "three segments and more"
    await fleet.stop()
    await fleet.start()
    await fleet.level()
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, start="earliest") as consumer:
        assert [(await anext(consumer)).value for _ in values] == values


async def started(fleet: Fleet, process: NodeProcess) -> None:
    async def leads() -> bool:
        try:
            return (await fleet.status(1)).role == "leader"
        except Exception:  # its port is not there yet
            return False

    await eventually(leads, f"the node leads: {process.log[-500:]}")


@pytest.mark.parametrize(("mode", "flush", "doubts"), [("staged", "async", True), ("direct", "async", False)])
async def test_after_a_kill_only_a_node_that_stages_doubts_its_log(
    make_fleet: MakeFleet, mode: WriteMode, flush: str, doubts: bool
) -> None:
    fleet = make_fleet(1, write=mode, flush=flush)
    config = fleet.write_toml(1)
    with NodeProcess(config) as process:
        await started(fleet, process)
        topic = await fleet.create_topic()
        assert error_of(await fleet.produce(1, sample_batch(topic))) is None
        os.kill(process.pid, signal.SIGKILL)
        await process.ended()
    with NodeProcess(config) as process:
        await started(fleet, process)
        assert (LOST in process.log) == doubts
        os.kill(process.pid, signal.SIGTERM)
        assert await process.ended() == 0
    with NodeProcess(config) as process:
        await started(fleet, process)
        assert process.log.count(LOST) == doubts, "an orderly stop leaves no doubt"


async def test_indexes_lie_where_they_are_told_to(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(1, index_data=tmp_path / "indexes")
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    assert error_of(await fleet.produce(1, sample_batch(topic, keys=[b"key", None]))) is None
    await fleet.level()
    assert len(list((tmp_path / "indexes" / "shard-0" / "keys").iterdir())) == 1
    assert [path.stat().st_size for path in (tmp_path / "indexes" / "shard-0" / "queues").glob("*/*")] == [40]
    assert not (fleet.data(1) / "shard-0" / "queues").exists()
    assert not (fleet.data(1) / "shard-0" / "keys").exists()
    assert (fleet.data(1) / "shard-0" / "log").exists()
    await fleet.stop()
    await fleet.start()
    await fleet.level()
    assert (await fleet.fetch(1, topic, 0)).batches


async def test_indexes_of_two_nodes_in_one_directory_are_refused(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(2, index_data=tmp_path / "indexes")
    await fleet.start(1)
    with pytest.raises(DirectoryInUseError, match="indexes is locked by process"):
        await fleet.start(2)
    await fleet.stop(1)
    with pytest.raises(WrongDirectoryError, match="indexes belongs to node 1 of cluster 'test', not to node 2"):
        await fleet.start(2)


@pytest.mark.parametrize(
    ("data", "indexes", "what"),
    [
        ("b", "new", "the indexes of a node, not to the data of a node"),
        ("new", "a", "the data of a node, not to the indexes"),
    ],
)
async def test_data_and_indexes_do_not_change_places(
    make_fleet: MakeFleet, tmp_path: Path, data: str, indexes: str, what: str
) -> None:
    fleet = make_fleet(1, data=tmp_path / "a", index_data=tmp_path / "b")
    await fleet.start()
    await fleet.stop()
    fleet.override(1, data=tmp_path / data, index_data=tmp_path / indexes)
    with pytest.raises(WrongDirectoryError, match=f"belongs to {what}"):
        await fleet.start()

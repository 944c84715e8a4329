"""Three real node processes under load, their leader killed: valid from directories and over HTTP, running and stopped,
by both engines; and not judged where a node dies while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.local.processes import DevCluster
from ledger.spark.validation.spark_engine import SparkEngine
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.report.report import NOT_JUDGED, VALID, VIOLATED, ValidationReport
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually
from tests.ledger.spark.live_copy import copy_live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
MESSAGES = 1500
SPAN_BYTES = 64 << 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("validated"))
    cluster.start(3, base_port=free_base_port(3), shards=2, segment_bytes=8 << 20)
    yield cluster
    cluster.purge()


@pytest.fixture(scope="module")
def history(cluster: DevCluster) -> Path:
    """The history of a load during which the leader of shard 0 was killed."""
    path = cluster.node(1).data.parent.parent / "history.jsonl"
    asyncio.run(load(cluster, path))
    return path


async def load(cluster: DevCluster, path: Path) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic("loaded", queues=4)
    async with AsyncProducer(cluster.bootstrap, history=path, delivery_timeout_ms=60_000) as producer:
        await send(producer, 0)
        leader = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.kill, leader)
        await send(producer, MESSAGES)
        await asyncio.to_thread(cluster.restart, leader)
        await send(producer, 2 * MESSAGES)
    await eventually(partial(are_level, cluster), "the node that was killed has caught up")


async def are_level(cluster: DevCluster) -> bool:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        lags = [each.lag_entries for shard in (0, 1) for each in (await admin.members(shard=shard)).members]
    return lags == [0] * 6


async def send(producer: AsyncProducer, first: int) -> None:
    values = [b"%d " % number + b"x" * (number % 700) for number in range(first, first + MESSAGES)]
    futures = [
        producer.send_nowait("loaded", value, key=f"key {at % 50}" if at % 3 else None, tag="even" if at % 2 else None)
        for at, value in enumerate(values)
    ]
    await asyncio.gather(*futures)


def directories(cluster: DevCluster) -> list[str]:
    return [str(cluster.node(node).data) for node in (1, 2, 3)]


def urls(cluster: DevCluster) -> list[str]:
    return [f"http://{state.http}" for state in cluster.status()]


def assert_valid(report: ValidationReport, *, indexes: bool) -> None:
    assert report.not_judged == ()
    assert report.violations == ()
    assert report.status == VALID
    assert [shard.shard for shard in report.shards] == [0, 1]
    assert report.acknowledged is not None
    assert report.acknowledged.acknowledged == 3 * MESSAGES
    assert sum(shard.replicas[0].messages for shard in report.shards) == 3 * MESSAGES
    units = sum(replica.units for shard in report.shards for replica in shard.replicas)
    assert (units > 0) == indexes  # of nodes that run, only what nobody changes any more is looked at


def test_a_running_cluster_is_valid_over_http_and_from_its_directories(
    cluster: DevCluster, history: Path, spark: SparkSession
) -> None:
    for engine in (PlainEngine(), SparkEngine(spark.sparkContext)):
        assert_valid(validate(urls(cluster), engine, histories=[history]), indexes=False)
    assert_valid(
        validate(directories(cluster), PlainEngine(), histories=[history], span_bytes=SPAN_BYTES), indexes=True
    )


def test_a_node_that_dies_while_it_is_read_is_never_valid_and_hides_no_violation(
    cluster: DevCluster, history: Path, tmp_path: Path
) -> None:
    copy = copy_live(cluster.node(1).data, tmp_path / "copy")
    segment = min((copy / "shard-0" / "log").iterdir())
    damaged = bytearray(segment.read_bytes())
    damaged[8] ^= 1
    segment.write_bytes(damaged)

    def kill_in_the_middle(spans: int, _bytes: int, _wrong: int) -> None:
        if spans == 1:
            cluster.kill(3)

    engine = PlainEngine(kill_in_the_middle)
    report = validate([urls(cluster)[2], str(copy)], engine, histories=[history], span_bytes=SPAN_BYTES)
    assert report.status == NOT_JUDGED
    assert any("cannot be read" in why for why in report.not_judged)
    assert {violation.kind for violation in report.violations} == {ViolationKind.DAMAGED_ENTRY}


def test_a_stopped_cluster_is_valid_and_a_lost_message_is_not(
    cluster: DevCluster, history: Path, spark: SparkSession
) -> None:
    cluster.stop()
    for engine in (PlainEngine(), SparkEngine(spark.sparkContext)):
        report = validate(directories(cluster), engine, histories=[history])
        assert_valid(report, indexes=True)
        assert sum(replica.units for shard in report.shards for replica in shard.replicas) == 9 * MESSAGES
    segment = max((Path(directories(cluster)[0]) / "shard-1" / "log").iterdir())
    data = bytearray(segment.read_bytes())
    data[len(data.rstrip(b"\0")) - 40] ^= 1
    segment.write_bytes(data)
    for engine in (PlainEngine(), SparkEngine(spark.sparkContext)):
        report = validate(directories(cluster), engine, histories=[history])
        assert report.status == VIOLATED
        assert {violation.source for violation in report.violations} == {directories(cluster)[0]}

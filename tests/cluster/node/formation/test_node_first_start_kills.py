"""The first start, killed at many moments: after each kill the next start forms the cluster."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from cluster.node.formation.first_voters import FirstVoters
from cluster.node.metrics.node_metrics import Meters
from cluster.node.process.ticker import Ticker
from cluster.node.replica.disk_threads import DiskThreads
from cluster.node.replica.local_replica import LocalReplica, TransactionNeighbours
from cluster.node.resources import NodeResources
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.node_events import NodeEvents
from ledger.broker.transactions.checkers import Checkers
from ledger.broker.transactions.other_shards import OtherShards
from raft.core.catch_up import CatchUpLimit
from raft.transport.control_streams import ControlStreams
from raft.transport.grpc_transport import GrpcTransport
from store import NodeDirectory
from store.disk.memory_disk import Killed, MemoryDisk

pytestmark = pytest.mark.long

EVERY_BYTES = 37
"""Between two moments of death that are tried."""

SETTINGS = NodeSettings(
    node=1,
    cluster="test",
    data=Path("/data"),
    peers={1: "127.0.0.1:1"},
    http="",
    segment_bytes=2 << 20,
    max_message_bytes=64 << 10,
)


async def begin(disk: MemoryDisk, number: int = 0, first_voters: FirstVoters | None = None) -> LocalReplica:
    """Start a process on this disk, until the replica takes part in the shard. Raises Killed."""
    directory = NodeDirectory.open(disk, SETTINGS.data, cluster=SETTINGS.cluster, node=SETTINGS.node)
    meters = Meters(CollectorRegistry(), SETTINGS.cluster, SETTINGS.node)
    lines = ControlStreams(SETTINGS.cluster, SETTINGS.node)
    runtime = Runtime(lambda me, peers, receiver: GrpcTransport(me, peers, receiver, lines))
    ticker = Ticker(runtime.vital, SETTINGS.tick_ms, SETTINGS.heartbeat_ticks)
    resources = NodeResources(SETTINGS, disk, directory, meters, runtime, NodeEvents(runtime.now_ms), CatchUpLimit())
    neighbours = TransactionNeighbours(Checkers(), cast("OtherShards", None), lambda: [number])
    shard = LocalReplica(number, resources, ticker, FetchWaiters(), neighbours)
    await shard.take_part(first_voters)
    return shard


async def end(shard: LocalReplica) -> tuple[int, ...]:
    """Stop the replica. Return the voters of the shard; empty if the shard has not begun and never will."""
    assert shard.replica is not None
    voters = shard.replica.driver.raft.configuration.voters
    await shard.stop()
    return voters


async def test_a_kill_at_any_moment_leaves_a_directory_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    start_threads = DiskThreads.start
    moments = 0
    for written in count(step=EVERY_BYTES):
        disk = MemoryDisk()
        disk.kill_after(written)

        def lives_on(threads: DiskThreads, disk: MemoryDisk = disk) -> None:
            disk.kill_after(1 << 40)  # the first start is over, and what comes is written by helper threads
            start_threads(threads)

        monkeypatch.setattr(DiskThreads, "start", lives_on)
        try:
            shard = await begin(disk)
        except Killed:
            moments += 1
            assert await end(await begin(disk.after_kill())) == (SETTINGS.node,), f"killed after {written} bytes"
        else:
            assert await end(shard) == (SETTINGS.node,)
            break
    assert moments > 10


async def test_a_shard_that_was_to_begin_with_a_node_that_is_gone_waits_and_ends_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starting = asyncio.create_task(
        begin(MemoryDisk(), 2, FirstVoters((1, 4), lambda node: SETTINGS.peers.get(node, "")))
    )
    done, _ = await asyncio.wait([starting], timeout=0.5)
    assert not done
    assert (
        "waits for node 4, which is to be a voter and is no member of the cluster: add a node of that number"
        in caplog.text
    )
    starting.cancel()
    await asyncio.wait([starting])

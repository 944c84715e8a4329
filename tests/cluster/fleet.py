"""Real nodes in the process of the test, with real files, ports and gRPC, in one event loop. A test calls a node over
its ports, as any client does. Only starting and stopping use the `Node` object. A test that needs SIGKILL uses
processes instead (cluster/local/processes.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from cluster.local.ports import choose_ports
from cluster.node.node import Node
from cluster.node.runtime import now_ms
from cluster.node.settings import NodeSettings
from ledger.batch import encode
from ledger.client.connection.channels import Connections, GrpcChannel, NodeStub
from ledger.errors import LedgerError, from_wire
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub
from ledgermq import AsyncAdmin
from store import Disk
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

MESSAGE_LIMIT = 64 << 10
SEGMENT_BYTES = 2 << 20


class FleetSettings(NodeSettings):
    """The settings of a node, without those of the environment. To look for them takes a fifth of a fleet's start."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class Fleet:
    """The nodes 1 to `nodes` of one cluster. No node runs until `start`. `disks` maps the numbers of some nodes to
    disks that these nodes use instead of the usual disk. `clocks` maps the numbers of some nodes to their wall clocks
    (ms)."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        disks: Mapping[int, Disk] | None = None,
        clocks: Mapping[int, Callable[[], int]] | None = None,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.running: dict[int, Node] = {}
        self._ports = dict(enumerate(choose_ports(nodes, free_base_port(nodes)), 1))
        self._disks = disks or {}
        self._clocks = clocks or {}
        self._settings = settings
        self._overrides: dict[int, dict[str, Any]] = {}
        self._connections = Connections(GrpcChannel)

    @property
    def nodes(self) -> list[int]:
        return list(self._ports)

    @property
    def bootstrap(self) -> list[str]:
        return [self.address(node) for node in self.nodes]

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node]}"

    def http(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node] + 1}"

    def data(self, node: int) -> Path:
        return self.directory / f"node-{node}"

    def settings(self, node: int, /, **other: Any) -> NodeSettings:
        """Return the settings of this node. Sizes and times are small, so that tests are quick."""
        ours: dict[str, Any] = {
            "node": node,
            "cluster": "test",
            "data": self.data(node),
            "listen": self.address(node),
            "http": self.http(node),
            "peers": {each: self.address(each) for each in self.nodes},
            "segment_bytes": SEGMENT_BYTES,
            "max_message_bytes": MESSAGE_LIMIT,
            "tick_ms": 25,
            # However full the disk is that the tests run on.
            "disk_clean_ratio": 0,
            "disk_force_ratio": 0,
            "disk_refuse_ratio": 0,
            "retention_check_ms": 50,
        }
        return FleetSettings(**{**ours, **self._settings, **self._overrides.get(node, {}), **other})

    def override(self, node: int, /, **settings: Any) -> None:
        """Use these settings for this node at its next starts."""
        self._overrides[node] = settings

    def write_toml(self, node: int) -> Path:
        """Write the settings of this node to a file, for a node process."""
        settings = self.settings(node)
        plain = settings.model_dump(mode="json", exclude={"peers"}, exclude_none=True)
        lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
        peers = [f"{peer} = {json.dumps(address)}" for peer, address in settings.peers.items()]
        path = self.directory / f"node-{node}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, "[peers]", *peers]) + "\n")
        return path

    # -- starting and stopping

    async def start(self, *nodes: int) -> None:
        """Start these nodes, one after another. Without arguments, start all nodes."""
        for node in nodes or self.nodes:
            clock = self._clocks.get(node, now_ms)
            self.running[node] = Node(self.settings(node), self._disks.get(node), now_ms=clock)
            await self.running[node].start()

    async def stop(self, *nodes: int) -> None:
        """Stop these nodes in order, all at the same time. Without arguments, stop all running nodes."""
        stopped = [self.running.pop(node) for node in nodes or list(self.running)]
        await asyncio.gather(*(node.stop() for node in stopped))

    async def close(self) -> None:
        for disk in self._disks.values():
            if isinstance(disk, GatedDisk):
                disk.release()
        await self._connections.close()
        await self.stop()

    # -- looking

    def stub(self, node: int) -> NodeStub:
        return self._connections.stub(self.address(node))

    def broker(self, node: int) -> BrokerStub:
        return self.stub(node)

    async def status(self, node: int) -> broker_pb2.ShardStatus:
        """Return the status of shard 0 on this node."""
        return (await self._all_shards(node))[0]

    async def _all_shards(self, node: int) -> Sequence[broker_pb2.ShardStatus]:
        answer = await self.broker(node).GetStatus(broker_pb2.GetStatusRequest(), timeout=5)
        shards: Sequence[broker_pb2.ShardStatus] = answer.shards
        return shards

    async def statuses(self) -> dict[int, broker_pb2.ShardStatus]:
        """Return the status of shard 0 on each running node."""
        return {node: await self.status(node) for node in self.running}

    async def leader(self) -> int:
        """Return the leader of shard 0, once all running nodes name the same leader and the leader accepts
        proposals."""
        return await eventually(self._agreed_leader, "the running nodes follow one leader")

    async def _agreed_leader(self) -> int:
        statuses = await self.statuses()
        leaders = {status.leader for status in statuses.values()}
        leader = leaders.pop()
        agreed = not leaders and leader in statuses and statuses[leader].role == "leader"
        if agreed and set(self.running) == set(self.nodes) and statuses[leader].feature_level < LATEST_LEVEL:
            return 0  # the leader is about to append the entry that raises the level
        # Only once its own no-op is applied does it take proposals.
        return leader if agreed and statuses[leader].applied == statuses[leader].last_index else 0

    async def follower(self) -> int:
        """Return a running node that does not lead shard 0."""
        leader = await self.leader()
        return next(node for node in self.running if node != leader)

    async def level(self) -> broker_pb2.ShardStatus:
        """Wait until all running nodes have applied the same log to its end, in each shard. Return the status of
        shard 0."""

        async def same() -> broker_pb2.ShardStatus | None:
            first, *others = [await self._all_shards(node) for node in self.running]
            done = all(each.applied == each.last_index > 0 for each in first)
            return first[0] if done and all(_places(each) == _places(first) for each in others) else None

        return await eventually(same, "all running nodes hold the same logs, applied")

    # -- speaking

    async def create_topic(self, name: str = "topic", queues: int = 1) -> int:
        """Create a topic, and return its id."""
        async with AsyncAdmin(self.bootstrap) as admin:
            return (await admin.create_topic(name, queues)).topic_id

    def stream(self, node: int) -> BareProduceStream:
        return BareProduceStream(self.broker(node))

    async def produce(self, node: int, batch: bytes) -> broker_pb2.ProduceResult:
        """Send one batch to this node, without a retry, and return the answer."""
        stream = self.stream(node)
        try:
            return await stream.produce(batch)
        finally:
            stream.drop()

    async def fetch(
        self, node: int, topic_id: int, offset: int, *, queue: int = 0, max_wait_ms: int = 0
    ) -> broker_pb2.FetchedQueue:
        """Send one fetch request to this node, and return the answer."""
        request = broker_pb2.FetchRequest(
            queues=[broker_pb2.QueueFetch(topic_id=topic_id, queue=queue, offset=offset)],
            max_wait_ms=max_wait_ms,
            max_bytes=1 << 20,
        )
        response = await self.broker(node).Fetch(request, timeout=10)
        fetched: broker_pb2.FetchedQueue = response.queues[0]
        return fetched


def _places(shards: Iterable[broker_pb2.ShardStatus]) -> list[tuple[int, ...]]:
    return [(each.shard, each.last_index, each.chain, each.end_position, each.applied) for each in shards]


MakeFleet = Callable[..., Fleet]
"""The fixture `make_fleet`: takes what `Fleet` takes but the directory."""


class BareProduceStream:
    """A produce stream without a client: the test sends each request and reads each answer, and can drop the
    stream."""

    def __init__(self, broker: BrokerStub) -> None:
        self._call = broker.Produce()

    async def send(self, *batches: bytes) -> None:
        await self._call.write(broker_pb2.ProduceRequest(batches=batches))

    async def answer(self) -> list[broker_pb2.ProduceResult]:
        async with asyncio.timeout(15):
            response: broker_pb2.ProduceResponse = await self._call.read()
        return list(response.results)

    async def produce(self, batch: bytes) -> broker_pb2.ProduceResult:
        await self.send(batch)
        (result,) = await self.answer()
        return result

    def drop(self) -> None:
        """Cancel the stream."""
        self._call.cancel()


def sample_batch(
    topic_id: int,
    values: Iterable[bytes] = (b"one", b"two"),
    *,
    queue: int = 0,
    producer_id: int = 7,
    epoch: int = 0,
    first_sequence: int = 0,
    **columns: Any,
) -> bytes:
    return encode(
        list(values),
        topic_id=topic_id,
        queue=queue,
        producer_id=producer_id,
        epoch=epoch,
        first_sequence=first_sequence,
        base_timestamp_ms=1_700_000_000_000,
        **columns,
    )


def error_of(answer: broker_pb2.ProduceResult | broker_pb2.FetchedQueue | Any) -> LedgerError | None:
    """Return the error of an answer as a Python exception, or None if the answer has no error."""
    return from_wire(answer.error) if answer.HasField("error") else None

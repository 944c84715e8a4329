"""The peer NATS JetStream: Debian's nats-server with the Python client nats-py."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.installed import Installed
from bench.peers.peer import Description, How
from bench.peers.processes import Processes

_READY_S = 30.0

_CONFIG = """
server_name: node-{node}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{store}" }}
cluster {{
  name: peers
  listen: 127.0.0.1:{cluster_port}
  routes: [{routes}]
}}
"""


class NatsServers:
    """Runs three servers that form one JetStream cluster."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._processes = Processes()

    def install(self) -> None:
        self._program()

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        clients, routes = ports[:3], ports[3:6]
        directory.mkdir(parents=True, exist_ok=True)
        for node in range(3):
            config = directory / f"node-{node}.conf"
            config.write_text(
                _CONFIG.format(
                    node=node,
                    port=clients[node],
                    store=directory / f"node-{node}",
                    cluster_port=routes[node],
                    routes=", ".join(f"nats://127.0.0.1:{port}" for port in routes),
                )
            )
            self._processes.spawn(directory, f"node-{node}", [self._program(), "-c", config])
        self._processes.wait_open(clients)
        return ",".join(f"nats://127.0.0.1:{port}" for port in clients)

    def stop(self) -> None:
        self._processes.stop()

    @property
    def pids(self) -> Sequence[int]:
        return self._processes.pids

    def describe(self) -> Description:
        done = subprocess.run([self._program(), "--version"], capture_output=True, text=True, check=True)
        return Description(
            version=done.stdout.strip(),
            replication="a stream of file storage with 3 replicas, acknowledged by a majority (Raft)",
            flush="nothing before it acknowledges; every two minutes (its default)",
            flushes_first=False,
        )

    def _program(self) -> Path:
        return self._installed.program("nats-server", "nats-server")


class NatsClient:
    """Drives NATS through the Python client nats-py. Each topic is a stream with one subject."""

    how: ClassVar[How] = How(
        each="`publish_async`, `publish_async_max_pending=1000` (a fifth faster than tasks that await `publish`)",
        bulk="`publish_async`, with its default of 4,000 pending",
        consume="an ordered consumer with a callback (2.5 times as fast as pulling)",
    )

    most_waiting_clients: ClassVar[int] = 1_000

    async def open(self, address: str, topic: str) -> None:
        import nats

        self._topic = topic
        self._connection = await nats.connect(address.split(","))
        self._stream = self._connection.jetstream()
        await self._make_stream()

    async def _make_stream(self) -> None:
        """Create the stream; if the cluster has no leader yet, wait for its first leader."""
        from nats.errors import NoRespondersError
        from nats.errors import TimeoutError as NatsTimeoutError
        from nats.js.errors import APIError, NoStreamResponseError

        deadline = asyncio.get_running_loop().time() + _READY_S
        while True:
            try:
                await self._stream.add_stream(name=self._topic, subjects=[self._topic], num_replicas=3, storage="file")
                return
            except (APIError, NoStreamResponseError, NatsTimeoutError, NoRespondersError):
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        await self._publish(self._connection.jetstream(publish_async_max_pending=in_flight), values)

    async def send_one(self, value: bytes) -> None:
        await self._stream.publish(self._topic, value)

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        await self._publish(self._stream, values)

    async def _publish(self, stream: Any, values: Sequence[bytes]) -> None:
        acks: list[Any] = [await stream.publish_async(self._topic, value) for value in values]
        for ack in acks:
            await ack

    async def consume(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        all_there = asyncio.Event()

        async def take(message: Any) -> None:
            found.append(message.data)
            if len(found) == count:
                all_there.set()

        await self._stream.subscribe(self._topic, cb=take, ordered_consumer=True)
        await all_there.wait()
        return found

    async def close(self) -> None:
        await self._connection.close()

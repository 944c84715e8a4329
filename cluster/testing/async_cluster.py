"""A test cluster for asyncio: each method runs the one of `Cluster` in a thread, so the event loop continues."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


class BlockingCluster(Protocol):
    """The methods of `Cluster` that `AsyncCluster` calls."""

    @property
    def nodes(self) -> tuple[int, ...]: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    def is_whole(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def address(self, node: int) -> str: ...
    def rocketmq_address(self, node: int) -> str: ...
    def pid(self, node: int) -> int: ...
    def log(self, node: int) -> str: ...
    def data(self, node: int) -> Path: ...
    def leader(self, shard: int = 0, *, timeout_s: float = 10.0) -> int: ...
    def create_topic(self, name: str = "", *, queues: int = 1) -> str: ...
    def kill(self, node: int) -> None: ...
    def kill_leader(self, shard: int = 0) -> int: ...
    def restart(self, node: int) -> None: ...
    def pause(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def partition(self, *sides: Collection[int]) -> None: ...
    def heal(self) -> None: ...
    def restore(self) -> None: ...


class AsyncCluster:
    """A cluster for tests with asyncio. `async with Cluster(...)` returns one, and so does `Cluster.aio`."""

    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all nodes. Return when they follow one leader in each shard."""
        await asyncio.to_thread(self._cluster.start)

    async def stop(self) -> None:
        """End all processes with SIGKILL, and remove the files."""
        await asyncio.to_thread(self._cluster.stop)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes."""
        return self._cluster.nodes

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for `bootstrap_servers` of the clients."""
        return self._cluster.bootstrap

    @property
    def directory(self) -> Path:
        """The directory with the files of all nodes."""
        return self._cluster.directory

    def is_whole(self) -> bool:
        """Return True if no node is killed or paused, and no partition is made."""
        return self._cluster.is_whole()

    def address(self, node: int) -> str:
        """Return the address of a node, "127.0.0.1:port"."""
        return self._cluster.address(node)

    def rocketmq_address(self, node: int) -> str:
        """Return the address of a node for RocketMQ clients, "127.0.0.1:port". The cluster needs `rocketmq=True`."""
        return self._cluster.rocketmq_address(node)

    def pid(self, node: int) -> int:
        """Return the process id of a node that runs."""
        return self._cluster.pid(node)

    def log(self, node: int) -> str:
        """Return the end of the log output of a node, at most 64 KiB."""
        return self._cluster.log(node)

    def data(self, node: int) -> Path:
        """Return the data directory of a node."""
        return self._cluster.data(node)

    async def leader(self, shard: int = 0, *, timeout_s: float = 10.0) -> int:
        """Return the node that leads this shard. Wait for a leader at most `timeout_s` seconds."""
        return await asyncio.to_thread(self._cluster.leader, shard, timeout_s=timeout_s)

    async def create_topic(self, name: str = "", *, queues: int = 1) -> str:
        """Create a topic, and return its name. Without `name`, the name is new."""
        return await asyncio.to_thread(self._cluster.create_topic, name, queues=queues)

    async def kill(self, node: int) -> None:
        """Kill the process of a node with SIGKILL. Return when the process has ended."""
        await asyncio.to_thread(self._cluster.kill, node)

    async def kill_leader(self, shard: int = 0) -> int:
        """Kill the process of the node that leads this shard with SIGKILL. Return the number of the node."""
        return await asyncio.to_thread(self._cluster.kill_leader, shard)

    async def restart(self, node: int) -> None:
        """Start a node again with its data; stop it with SIGTERM before, if it runs."""
        await asyncio.to_thread(self._cluster.restart, node)

    async def pause(self, node: int) -> None:
        """Stop the process of a node with SIGSTOP, until `resume`."""
        await asyncio.to_thread(self._cluster.pause, node)

    async def resume(self, node: int) -> None:
        """Let a paused node continue."""
        await asyncio.to_thread(self._cluster.resume, node)

    async def partition(self, *sides: Collection[int]) -> None:
        """Let nodes of different sides hear nothing of each other until `heal`."""
        await asyncio.to_thread(self._cluster.partition, *sides)

    async def heal(self) -> None:
        """End the partition."""
        await asyncio.to_thread(self._cluster.heal)

    async def restore(self) -> None:
        """End the partition, resume the paused nodes, and start the killed nodes, or all nodes of a stopped cluster."""
        await asyncio.to_thread(self._cluster.restore)

"""The nodes of one cluster as processes, each with the fault that a test gives it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from tests.cluster.fleet import Fleet
from tests.cluster.monitoring.faulty_node import program_with
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.waiter import eventually


class NodeProcesses:
    """The processes of the nodes 1 to `nodes`, which end with the `async with` block. `fleet` has their settings and
    addresses, and speaks to them."""

    def __init__(self, directory: Path, nodes: int = 3, **settings: Any) -> None:
        directory.mkdir()
        self.fleet = Fleet(directory, nodes, **settings)
        self._processes: dict[int, NodeProcess] = {}
        for node in self.fleet.nodes:
            self.override(node)
            self.boot(node)

    async def __aenter__(self) -> NodeProcesses:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(self.kill(node) for node in [*self._processes]))
        await self.fleet.close()

    def override(self, node: int, **settings: Any) -> None:
        """Use these settings for this node at its next starts."""
        self.fleet.override(node, boot_id_file=self._boot_id(node), **settings)

    @property
    def http(self) -> list[str]:
        """The HTTP addresses of all nodes."""
        return [self.fleet.http(node) for node in self.fleet.nodes]

    @property
    def bootstrap(self) -> list[str]:
        return self.fleet.bootstrap

    def start(self, *nodes: int, fault: str = "", before: Sequence[str] = ()) -> None:
        """Start these nodes, without arguments all. With a fault of `faulty_node.py`, the nodes have it."""
        for node in nodes or self.fleet.nodes:
            config = self.fleet.write_toml(node)
            main = program_with(fault, self._trigger(node)) if fault else ""
            self._processes[node] = NodeProcess(config, before=before, main=main)

    async def ready(self, *nodes: int) -> None:
        """Wait until these nodes are ready, without arguments all."""
        for node in nodes or self.fleet.nodes:
            address = self.fleet.http(node)
            await eventually(lambda address=address: is_ready(address), f"node {node} is ready", deadline_s=40)  # type: ignore[misc]

    async def leader(self, *nodes: int) -> int:
        """Return the node of these, without arguments of all, that leads shard 0."""

        async def led() -> int:
            for node in nodes or self.fleet.nodes:
                if (await self.fleet.status(node)).role == "leader":
                    return node
            return 0

        return await eventually(led, "a node leads")

    def pause(self, *nodes: int) -> None:
        """Stop these processes with SIGSTOP."""
        for node in nodes:
            self._processes[node].send_signal(signal.SIGSTOP)

    def resume(self, *nodes: int) -> None:
        for node in nodes:
            self._processes[node].send_signal(signal.SIGCONT)

    async def kill(self, *nodes: int) -> None:
        """Kill these processes with SIGKILL, also paused ones."""
        await self._end(signal.SIGKILL, *nodes)

    async def stop(self, *nodes: int) -> None:
        """Stop these processes in order."""
        await self._end(signal.SIGTERM, *nodes)

    async def _end(self, number: int, *nodes: int) -> None:
        ended = [self._processes.pop(node) for node in nodes or [*self._processes]]
        for process in ended:
            process.send_signal(number)
        for process in ended:
            await process.ended()

    def boot(self, *nodes: int) -> None:
        """Let the next start of these nodes find another boot of the machine, as after a power cut."""
        for node in nodes:
            self._boot_id(node).write_text(f"{uuid4()}\n")

    def begin_fault(self, node: int, value: str = "") -> None:
        """Begin the fault of this node. The node, which reads the file at any moment, finds no file or the whole value:
        half a value would stop the node."""
        whole = self._trigger(node).with_suffix(".new")
        whole.write_text(value)
        whole.replace(self._trigger(node))

    def end_fault(self, node: int) -> None:
        self._trigger(node).unlink()

    def _trigger(self, node: int) -> Path:
        return self.fleet.directory / f"node-{node}.fault"

    def _boot_id(self, node: int) -> Path:
        return self.fleet.directory / f"node-{node}.boot-id"

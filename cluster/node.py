"""One node: the composition root. It opens the directory, starts its group and joins both to the ports.

    settings ─> directory ─> group ─> gRPC (clients, peers), HTTP (metrics, health)

One asyncio loop owns all state; only fsyncs and the making of segments happen on helper threads.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from importlib.metadata import version
from pathlib import Path

import uvloop
from grpc import aio
from prometheus_client import CollectorRegistry

from cluster.group import GroupError, LocalGroup
from cluster.http import HttpPort
from cluster.logs import set_up_logging
from cluster.metrics import Meters, RaftCollector
from cluster.settings import NodeSettings
from cluster.vital import spawn
from ledger.broker.service import BrokerService, NodeFacts
from ledger.v1 import broker_pb2_grpc
from raft.streams import SERVER_OPTIONS
from raft.transport import RaftService
from raft.v1 import raft_pb2_grpc
from store import Disk, NodeDirectory, PosixDisk, StoreError

log = logging.getLogger("cluster.node")

GROUP = 0
STOP_GRACE_S = 1.0


class NodeError(Exception):
    """This node cannot run. The sentence says why and what to do."""


class Node:
    """Runs from `start` to `stop`. Its directory is taken, and its log read, when it is made.

    Raises StoreError, GroupError then."""

    def __init__(self, settings: NodeSettings, disk: Disk | None = None) -> None:
        disk = disk or PosixDisk()
        self._settings = settings
        self._registry = CollectorRegistry()
        self._meters = Meters(self._registry, settings.cluster, settings.node)
        self._directory = NodeDirectory.open(disk, settings.data, cluster=settings.cluster, node=settings.node)
        try:
            self._group = LocalGroup(GROUP, settings, disk, self._directory, self._meters)
        except BaseException:
            self._directory.close()
            raise
        self._raft_service = RaftService(lambda request: self._group.newcomer.introduce(request))
        self._broker = BrokerService(self._facts(), self._group.max_message_bytes, self._meters)
        self._server = aio.server(options=SERVER_OPTIONS)
        self._http = HttpPort(self._registry, self._group.not_ready)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once this node serves its ports; the first start and elections go on by themselves.

        Raises NodeError where a port cannot be had. `stop` is due in any case."""
        await self._serve_grpc()
        await self._serve_http()
        self._tasks = [
            spawn(self._join(), "start of the group"),
            spawn(self._meters.probe_loop_lag(), "event loop lag"),
        ]

    async def stop(self) -> None:
        """Orderly: nothing comes in any more, then what was acknowledged is flushed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(STOP_GRACE_S)
        await self._http.stop()
        await self._group.stop()
        self._directory.close()

    async def _join(self) -> None:
        transport = await self._group.take_part()
        replica = self._group.replica
        assert replica is not None
        self._registry.register(RaftCollector({GROUP: replica}))
        self._raft_service.add_group(transport)
        self._broker.serve(replica)

    async def _serve_grpc(self) -> None:
        raft_pb2_grpc.add_RaftServicer_to_server(self._raft_service, self._server)
        broker_pb2_grpc.add_BrokerServicer_to_server(self._broker, self._server)
        address = self._settings.listen
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise NodeError(f"cannot listen on {address}: is the port in use? Choose another with `listen`") from error
        await self._server.start()
        log.info("node %d of cluster %r serves %s", self._settings.node, self._settings.cluster, address)

    async def _serve_http(self) -> None:
        address = self._settings.http
        if not address:
            return
        try:
            await self._http.start(address)
        except OSError as error:
            raise NodeError(
                f"cannot serve HTTP on {address}: {error.strerror}; choose another with `http`, or an empty one"
            ) from error

    def _facts(self) -> NodeFacts:
        settings = self._settings
        return NodeFacts(
            node=settings.node,
            cluster=settings.cluster,
            addresses=settings.addresses,
            http_address=settings.http,
            data_directory=str(Path(settings.data).absolute()),
            version=version("ledgermq"),
        )


def run_node(settings: NodeSettings) -> int:
    """Runs a node in the foreground until SIGTERM or SIGINT. Gives the exit status."""
    set_up_logging(settings.log_format, settings.log_level)
    try:
        uvloop.run(serve_until_stopped(settings))
    except (NodeError, GroupError, StoreError) as error:
        log.error("%s", error)
        return 1
    return 0


async def serve_until_stopped(settings: NodeSettings) -> None:
    stopping = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    node = Node(settings)
    try:
        await node.start()
        await stopping.wait()
        log.info("stopping")
    finally:
        await node.stop()

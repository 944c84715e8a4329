"""Creates and connects all objects of a node (the composition root). `Node` opens the data directory that the settings
name, starts the shards, and connects the shards to the ports. The gRPC port serves clients and peers; the HTTP port
serves metrics, health checks and log segments.

One asyncio event loop owns the state of all shards. Work that can block on a disk (fsyncs, new segment files,
checkpoints, repair) runs on helper threads.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
from collections.abc import Callable, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from grpc import aio
from prometheus_client import CollectorRegistry

from cluster.node.client_services import ClientServices
from cluster.node.delivered import Delivered
from cluster.node.formation.first_start import GrpcIntroductions
from cluster.node.metrics.node_metrics import Meters
from cluster.node.metrics.placement_metrics import PlacementCollector
from cluster.node.metrics.raft_metrics import RaftCollector
from cluster.node.metrics.readiness_metrics import ReadinessCollector
from cluster.node.metrics.request_metrics import RequestCollector
from cluster.node.metrics.rocketmq_metrics import RocketmqCollector
from cluster.node.node_shards import NodeShards
from cluster.node.process.clock_watch import ClockWatch
from cluster.node.process.file_limit import (
    check_file_limit,
    connections_open_at_once,
    file_limit,
    raise_file_limit,
)
from cluster.node.process.logs import set_up_logging
from cluster.node.process.recent_log import RecentLog
from cluster.node.process.stop_signals import stop_requested
from cluster.node.process.vital import Vital
from cluster.node.registration import Registration
from cluster.node.repair.entry_source import GrpcEntrySource
from cluster.node.replica.shard_log import ShardError
from cluster.node.request_guard import RequestGuard
from cluster.node.runtime import Addresses, Runtime, now_ms
from cluster.node.security.access import NodeAccess, first_password
from cluster.node.security.connection_limits import ConnectionLimits, Limits
from cluster.node.security.connection_watch import ConnectionWatch
from cluster.node.security.local_server import LocalServer, NotASocketError
from cluster.node.security.node_channel import NodeChannel
from cluster.node.security.node_identity import node_identity
from cluster.node.security.peer_admission import GrpcAskMember, PeerAdmission
from cluster.node.security.tls import server_credentials
from cluster.node.settings import NodeSettings, SettingsError, split_address
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.node_view import NodeFacts, RocketmqAddresses
from ledger.broker.slow.slow_requests import SlowRequests
from ledger.client.connection.environment import Environment
from ledger.version import VERSION
from raft.transport.control_streams import ControlStreams
from raft.transport.grpc_transport import GrpcTransport, Identity, RaftService, Receiver, add_raft
from raft.transport.streams import server_options
from raft.v1 import raft_pb2_grpc
from store import Disk, NodeDirectory, PosixDisk, StoreError, read_boot_id

if TYPE_CHECKING:
    from cluster.node.http.http_port import HttpPort
    from cluster.node.node_spans import NodeSpans
    from cluster.node.rocketmq_ports import RocketmqPorts

log = logging.getLogger("ledgermq.node")

STOP_GRACE_S = 1.0


class NodeError(Exception):
    """`NodeError` says that a node cannot run. The error message names the reason and says what to do."""


class Node:
    """Runs one node of a cluster, from `start` to `stop`."""

    def __init__(
        self,
        settings: NodeSettings,
        disk: Disk | None = None,
        *,
        now_ms: Callable[[], int] = now_ms,
        embedded: Vital | None = None,
        recent_log: RecentLog | None = None,
    ) -> None:
        """Lock the data directory and open the logs of its shards. `now_ms()` is the wall clock of the node. Raise
        StoreError or ShardError if the node cannot open its directory or a log, SettingsError if it cannot read a file
        that the settings name, and NodeError if a package is missing. After an error, no file is open.

        With `embedded`, the node runs in the process of a user's program (embedded.py): it serves its local socket and
        no port, it changes nothing that belongs to the process, and a fault ends `embedded` instead of the process."""
        disk = disk or PosixDisk()
        self._settings = settings
        self._embedded = embedded
        password = first_password(settings, disk)
        identity = self._identity = node_identity(settings, is_reachable=embedded is None)
        self._registry = CollectorRegistry()
        self._meters = Meters(
            self._registry, settings.cluster, settings.node, flush=settings.flush, write=settings.write
        )
        dialer = identity.dialer
        self._runtime = Runtime(
            self._make_transport,
            introductions=partial(GrpcIntroductions, dialer=dialer),
            entry_source=partial(GrpcEntrySource, dialer=dialer),
            now_ms=now_ms,
            boot_id=partial(read_boot_id, settings.boot_id_file),
            client=Environment(channel=partial(NodeChannel, dialer, self._addresses)),
            vital=embedded or Vital(),
        )
        self._control_streams = ControlStreams(settings.cluster, settings.node, dialer)
        self._directory = NodeDirectory.open(
            disk, settings.data, cluster=settings.cluster, node=settings.node, indexes=settings.index_data
        )
        self._tasks: list[asyncio.Task[None]] = []
        with ExitStack() as opened:
            opened.callback(self._directory.close)
            shards = self._shards = NodeShards(
                settings, disk, self._directory, self._meters, self._runtime, on_start=self._shard_started
            )
            opened.callback(shards.close)
            ask = GrpcAskMember(settings.cluster, settings.node, dialer)
            admission = PeerAdmission(shards.replicas, ask, self._runtime.monotonic_ms)
            self._raft_service = RaftService(
                shards.introduce,
                shards.read_entries,
                admission.configuration,
                self._control_streams,
                identity.proofs,
                admission,
            )
            self._access = NodeAccess(
                settings, shards.replicas, self._runtime, identity.proofs, identity.watch, password
            )
            self._spans = make_spans(settings)
            if self._spans is not None:
                opened.callback(self._spans.stop)
            slow = self._slow = SlowRequests(
                settings.slow_request_ms,
                shards.replicas,
                self._runtime.monotonic_ms,
                self._runtime.now_ms,
                self._spans,
            )
            self._services = ClientServices(
                settings,
                self._facts(),
                shards,
                self._runtime,
                self._meters,
                self._access,
                slow,
                recent_log.lines if recent_log is not None else list,
            )
            # What the methods of the gRPC port got.
            self._delivered = Delivered()
            self._server = aio.server(
                interceptors=[RequestGuard(self._access.guard.admit, self._delivered, slow=slow), self._access.guard],
                options=server_options(
                    settings.largest_entry_bytes, connections_open_at_once(settings.max_connections, file_limit())
                ),
            )
            has_socket = settings.authentication or embedded is not None
            self._local = LocalServer(settings.data, self._make_local_server) if has_socket else None
            self._http = self._make_http()
            self._rocketmq = self._make_rocketmq()
            self._register_metrics()
            opened.pop_all()

    async def start(self) -> None:
        """Return as soon as this node serves its ports. Formation and elections continue in the background.

        Raises NodeError if a port cannot be opened. The caller must call `stop` also after an error."""
        await self._serve_grpc()
        await self._serve_local()
        await self._serve_http()
        await self._serve_rocketmq()
        self._shards.start()
        if self._embedded is None:  # the sockets of a user's program are not the node's
            connections = ConnectionWatch(self._connection_limits())
            self._tasks.append(self._runtime.vital.spawn(connections.run(), "connections"))
        watch = ClockWatch(self._shards.replicas, self._runtime, self._meters.clock_leaps)
        self._tasks.append(self._runtime.vital.spawn(watch.run(), "clocks"))
        self._tasks += [self._runtime.vital.spawn(work, name) for name, work in self._access.tasks()]
        if self._rocketmq is not None:
            self._tasks += [self._runtime.vital.spawn(work, name) for name, work in self._rocketmq.tasks()]
        if names := self._settings.nameservers:
            registration = Registration(self._settings.node, names, self._services.broker.routes, self._identity.dialer)
            work = registration.run()
            self._tasks.append(self._runtime.vital.spawn(work, "registration with name servers"))

    async def stop(self) -> None:
        """Stop the node in order: hand leadership to other nodes, close the ports, then flush all acknowledged
        entries."""
        await self._shards.hand_over()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close_ports(STOP_GRACE_S)
        if self._spans is not None:
            await asyncio.to_thread(self._spans.stop)
        await self._shards.stop()
        self._directory.close()

    async def abandon(self) -> None:
        """Close the ports of a node with a broken invariant, and write nothing more. The data directory stays locked
        until the process ends, and the next start recovers the data as after a kill."""
        for task in self._tasks:
            task.cancel()
        await self._close_ports(0)

    def not_ready(self) -> str:
        """Return the reason why clients should not use this node, or "" if this node is ready."""
        authorizer = self._access.authorizer
        return self._shards.not_ready() or ("" if authorizer is None else authorizer.not_ready())

    async def _close_ports(self, grace_s: float) -> None:
        if self._rocketmq is not None:
            await self._rocketmq.stop(grace_s)
        await self._server.stop(grace_s)
        if self._local is not None:
            await self._local.stop(grace_s)
        if self._http is not None:
            await self._http.stop()

    def _shard_started(self, _: BrokerReplica) -> None:
        if self._embedded is not None:
            return
        gc.collect()
        gc.freeze()  # later collections skip the objects that live as long as the process

    def _addresses(self) -> dict[int, str]:
        """Return the address of each node of the cluster, as this node's replica of shard 0 knows them."""
        first = self._shards.replicas.first
        return {} if first is None else dict(first.membership.addresses())

    def _make_transport(self, me: Identity, peers: Addresses, receiver: Receiver) -> GrpcTransport:
        transport = GrpcTransport(me, peers, receiver, self._control_streams)
        self._raft_service.add_shard(transport)
        return transport

    def _connection_limits(self) -> list[ConnectionLimits]:
        """Return the limits of all gRPC ports."""
        settings = self._settings
        own = ConnectionLimits(
            split_address(settings.listen)[1],
            Limits(settings.max_connections_per_host, settings.max_unread_bytes, settings.authentication),
            self._delivered,
            clients=self._access.sessions.has,
            nodes=self._identity.proofs.proven_peers,
            proven=self._proven_peers,
            end_proofs=self._end_proofs,
            stalled=self._services.response_budget.stalled_peers,
        )
        return [own, *(self._rocketmq.connection_limits() if self._rocketmq is not None else ())]

    def _proven_peers(self) -> set[str]:
        return self._access.sessions.peers() | self._identity.proofs.proven_peers()

    def _end_proofs(self, peers: Set[str]) -> None:
        self._access.sessions.end(peers)
        self._identity.proofs.end(peers)

    def _register_metrics(self) -> None:
        """Tell the registry of `/metrics` what the parts of the node report. The meters have registered themselves."""
        settings, shards, watch = self._settings, self._shards, self._identity.watch
        certificate_end = None if watch is None else lambda: watch.current.expires
        refused = self._control_streams.refused
        for collector in (
            RaftCollector(shards.replicas, lambda: refused.count, tick_s=settings.tick_ms / 1000),
            ReadinessCollector(shards.not_ready, shards.no_writes, certificate_end),
            PlacementCollector(shards.replicas, settings.node),
            RequestCollector(self._delivered.total),
        ):
            self._registry.register(collector)
        self._services.register_metrics(self._registry)
        if self._rocketmq is not None:
            self._registry.register(RocketmqCollector(self._rocketmq.front))

    def _make_http(self) -> HttpPort | None:
        if not self._settings.http:
            return None
        # Here, because aiohttp is a quarter of what a node imports, and nodes in tests have no HTTP port.
        from cluster.node.http.node_http import make_http

        return make_http(
            self._settings,
            self._registry,
            self._shards,
            self._access,
            self._identity.watch,
            lambda: self._addresses() or self._settings.addresses,
            self._runtime.now_ms,
        )

    def _make_rocketmq(self) -> RocketmqPorts | None:
        settings = self._settings
        if not (settings.rocketmq or settings.rocketmq_tls):
            return None
        from cluster.node.own_streams import OwnProduceStream, OwnStream  # here, because most nodes have no such port
        from cluster.node.rocketmq_ports import RocketmqPorts

        services = self._services
        return RocketmqPorts(
            settings,
            self._shards.replicas,
            self._access,
            self._runtime,
            self._addresses,
            self._identity.dialer,
            self._identity.watch,
            {
                "Produce": partial(OwnProduceStream, services.broker),
                "Share": partial(OwnStream, services.consumer_groups.Share),
            },
        )

    async def _serve_rocketmq(self) -> None:
        if self._rocketmq is None:
            return
        try:
            await self._rocketmq.start()
        except RuntimeError as error:
            raise NodeError(
                f"cannot serve RocketMQ clients on {error}: is the port in use? Choose another address with `rocketmq` "
                "or `rocketmq_tls`"
            ) from error

    async def _serve_grpc(self) -> None:
        if self._embedded is not None:
            return
        add_raft(self._raft_service, self._server)
        self._services.add_to(self._server)
        raft_pb2_grpc.add_NodeProofServicer_to_server(self._identity.proofs, self._server)
        address = self._settings.listen
        try:
            if (watch := self._identity.watch) is not None:
                self._server.add_secure_port(address, server_credentials(watch))
            else:
                self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise NodeError(
                f"cannot listen on {address}: is the port in use? Choose another address with `listen`"
            ) from error
        await self._server.start()
        log.info("node %d of cluster %r serves %s", self._settings.node, self._settings.cluster, address)

    def _make_local_server(self) -> aio.Server:
        guards = [RequestGuard(slow=self._slow), self._access.local_guard]
        server = aio.server(interceptors=guards, options=server_options(self._settings.largest_entry_bytes))
        self._services.add_to(server)
        return server

    async def _serve_local(self) -> None:
        if self._local is None:
            return
        try:
            await self._local.start()
        except NotASocketError as error:
            raise NodeError(str(error)) from error
        except (OSError, RuntimeError) as error:
            raise NodeError(
                f"cannot listen on the local socket in {self._settings.data}: {error}; the data directory must be on a "
                "file system that has sockets"
            ) from error

    async def _serve_http(self) -> None:
        if self._http is None:
            return
        address = self._settings.http
        try:
            await self._http.start(address)
        except OSError as error:
            raise NodeError(
                f"cannot serve HTTP on {address}: {error.strerror}; choose another address with `http`, or set `http` "
                "to an empty address to turn HTTP off"
            ) from error

    def _facts(self) -> NodeFacts:
        settings = self._settings
        return NodeFacts(
            node=settings.node,
            cluster=settings.cluster,
            addresses=settings.addresses,
            http_address=settings.http,
            data_directory=str(Path(settings.data).absolute()),
            version=VERSION,
            joins=settings.join,
            room=settings.room,
            shards=settings.shards,
            outside=settings.outside,
            rocketmq=RocketmqAddresses(
                settings.rocketmq_address(settings.rocketmq),
                settings.rocketmq_address(settings.rocketmq_tls),
                settings.rocketmq_outside_host,
            ),
        )


def make_spans(settings: NodeSettings) -> NodeSpans | None:
    """Return what makes the spans of the node, or None if it traces nothing. Raises NodeError if OpenTelemetry is not
    installed."""
    if not settings.otel_endpoint:
        return None
    try:
        from cluster.node.node_spans import node_spans  # here, because most nodes do not trace
    except ModuleNotFoundError as error:
        raise NodeError(
            "`otel_endpoint` needs the packages of OpenTelemetry: pip install 'ledgermq[otel-node]'"
        ) from error
    return node_spans(settings.otel_endpoint, settings.node, settings.cluster)


def run_node(settings: NodeSettings) -> int:
    """Run a node in the foreground until SIGTERM or SIGINT. Return the exit status."""
    recent_log = set_up_logging(settings.log_format, settings.log_level)
    # Without it, a node says nothing when a read of a mapped file fails: the system ends it with SIGBUS.
    faulthandler.enable()
    raise_file_limit()
    try:
        check_file_limit()
        uvloop.run(serve_until_stopped(settings, recent_log))
    except (NodeError, SettingsError, ShardError, StoreError) as error:
        log.error("%s", error)
        return 1
    return 0


async def serve_until_stopped(settings: NodeSettings, recent_log: RecentLog | None = None) -> None:
    """Run a node until SIGTERM or SIGINT. Raise NodeError, ShardError or StoreError if the node cannot run."""
    stopping = stop_requested()
    node = Node(settings, recent_log=recent_log)
    try:
        await node.start()
        await stopping.wait()
        log.info("stopping")
    finally:
        await node.stop()

"""The ports of a node for RocketMQ's clients: one in plaintext, and one with TLS. Either may be off.

The ports have the guards of the node's gRPC port: bounded requests, bounded connections, and one line of log for each
kind of error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from grpc import aio

from cluster.node.delivered import Delivered
from cluster.node.process.file_limit import connections_open_at_once, file_limit
from cluster.node.request_guard import RequestGuard
from cluster.node.runtime import Runtime
from cluster.node.security.access import NodeAccess
from cluster.node.security.certificates import CertificateWatch
from cluster.node.security.connection_limits import ConnectionLimits, Limits
from cluster.node.security.node_channel import NodeChannel
from cluster.node.security.tls import server_credentials
from cluster.node.settings import NodeSettings, split_address
from ledger.broker.access.callers import ANYBODY, Caller
from ledger.broker.replicas import Replicas
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.client.connection.environment import Environment
from ledger.rocketmq.admin_service import AdminFront
from ledger.rocketmq.calls import AUTHORIZATION, DATE
from ledger.rocketmq.front import FrontRuntime, RocketmqFront
from ledger.rocketmq.outgoing_message import MAX_BODY_BYTES, FrontLimits
from ledger.rocketmq.service import MessagingFront
from ledger.rocketmq.v2.admin_pb2_grpc import add_AdminServicer_to_server
from ledger.rocketmq.v2.service_pb2_grpc import add_MessagingServiceServicer_to_server
from raft.transport.dialing import Dialer
from raft.transport.streams import server_options

log = logging.getLogger("ledgermq.node")

# Opens a stream to this node for a caller.
OpenOwnStream = Callable[[Callable[[], Caller]], Any]


class RocketmqPorts:
    """Serves RocketMQ's clients from `start` to `stop`."""

    def __init__(
        self,
        settings: NodeSettings,
        replicas: Replicas,
        access: NodeAccess,
        runtime: Runtime,
        addresses: Callable[[], Mapping[int, str]],
        dialer: Dialer,
        watch: CertificateWatch | None,
        own_streams: Mapping[str, OpenOwnStream],
    ) -> None:
        """`addresses()` returns the address of each node of the cluster, and `dialer` opens channels to them. `watch`
        has the certificates; None: no TLS. `own_streams` open streams to this node itself, by the name of the
        method."""
        self._settings = settings
        self._runtime = runtime
        self._watch = watch
        limits = FrontLimits(
            min(MAX_BODY_BYTES, settings.max_message_bytes), round(settings.rocketmq_max_delay_hours * 3_600_000)
        )
        offsets_s = [round(hours * 3600) for hours in settings.rocketmq_utc_offsets_hours]
        self.front = RocketmqFront(
            FrontRuntime(
                runtime.now_ms,
                runtime.monotonic_s,
                runtime.chance,
                lambda: (addresses() or settings.addresses).values(),
                partial(_prove, access, runtime, offsets_s),
                partial(_check, access),
                partial(_environment, access, runtime, dialer, addresses, settings.node, own_streams),
                GroupLookup(replicas),
            ),
            limits,
        )
        self._servers: list[aio.Server] = []
        self._delivered: list[tuple[str, Delivered]] = []

    async def start(self) -> None:
        """Open the ports, and return. Raises RuntimeError if a port cannot be opened; the message names it."""
        for address, is_tls in ((self._settings.rocketmq, False), (self._settings.rocketmq_tls, True)):
            if address:
                await self._serve(address, is_tls=is_tls)

    async def _serve(self, address: str, *, is_tls: bool) -> None:
        delivered = Delivered()
        options = server_options(
            self._settings.largest_entry_bytes,
            connections_open_at_once(self._settings.max_connections, file_limit()),
        )
        server = aio.server(interceptors=[RequestGuard(delivered=delivered)], options=options)
        add_MessagingServiceServicer_to_server(MessagingFront(self.front, is_tls=is_tls), server)
        add_AdminServicer_to_server(AdminFront(self.front, is_tls=is_tls), server)
        self._servers.append(server)
        self._delivered.append((address, delivered))
        try:
            if is_tls:
                assert self._watch is not None, "the settings demand a certificate for `rocketmq_tls`"
                server.add_secure_port(address, server_credentials(self._watch))
            else:
                server.add_insecure_port(address)
        except RuntimeError as error:
            raise RuntimeError(address) from error
        await server.start()
        log.info("node %d serves RocketMQ clients on %s%s", self._settings.node, address, " with TLS" if is_tls else "")

    def tasks(self) -> list[tuple[str, Coroutine[None, None, None]]]:
        """Return the tasks that run as long as the ports, with their names."""
        return [("RocketMQ front", self.front.run())]

    def connection_limits(self) -> list[ConnectionLimits]:
        """Return the limits of the ports that are open."""
        limits = Limits(self._settings.max_connections_per_host, self._settings.max_unread_bytes)
        return [
            ConnectionLimits(split_address(address)[1], limits, delivered) for address, delivered in self._delivered
        ]

    async def stop(self, grace_s: float) -> None:
        for server in self._servers:
            await server.stop(grace_s)
        await self.front.close()


def _prove(
    access: NodeAccess, runtime: Runtime, utc_offsets_s: Sequence[int], headers: Mapping[str, str], is_tls: bool
) -> Caller:
    """Return who signed the headers of a call. Raises AuthenticationError and UnavailableError."""
    if access.authorizer is None:
        return ANYBODY
    return access.rocketmq.prove(
        headers.get(AUTHORIZATION, ""),
        headers.get(DATE, ""),
        access.authorizer.fresh_access(),
        runtime.now_ms(),
        is_tls=is_tls,
        utc_offsets_s=utc_offsets_s,
    )


def _check(access: NodeAccess, caller: Caller) -> None:
    """Raise LedgerError if a proven caller does not count any more, for example because the user was removed."""
    if access.authorizer is not None:
        access.authorizer.check_caller(caller)


def _environment(
    access: NodeAccess,
    runtime: Runtime,
    dialer: Dialer,
    addresses: Callable[[], Mapping[int, str]],
    node: int,
    own_streams: Mapping[str, OpenOwnStream],
    caller: Caller,
) -> Environment:
    """Return the environment of native clients of this node that act for a caller: every call names the caller, whose
    rights the called node checks."""
    forwarding = access.forwarding
    named = None if forwarding is None else partial(forwarding.named, caller)

    def admitted() -> Caller:
        if named is not None:
            named()  # raises LedgerError if the user may not call any more
        return caller

    def channel(address: str, client_id: str | None) -> NodeChannel:
        opened = NodeChannel(dialer, addresses, address, client_id, named)
        if addresses().get(node) == address:
            for name, open_stream in own_streams.items():
                setattr(opened.stub, name, partial(open_stream, admitted))
        return opened

    return replace(runtime.client, channel=channel)

"""Runs one name server, which is a process that keeps routes in memory only and does not communicate with other
name servers."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvloop
from grpc import aio

from cluster.address import split_address
from cluster.node.delivered import Delivered
from cluster.node.process.logs import set_up_logging
from cluster.node.process.stop_signals import stop_requested
from cluster.node.request_guard import RequestGuard
from cluster.node.security.certificate_proof import CertificateCredentials
from cluster.node.security.certificates import CertificateError, CertificateFiles, CertificateWatch
from cluster.node.security.connection_limits import ConnectionLimits, Limits
from cluster.node.security.connection_watch import ConnectionWatch
from cluster.node.security.own_certificate import NameServerCertificate
from cluster.node.security.tls import server_credentials
from ledger.nameserver.registrations import Registrations
from ledger.nameserver.service import NameServerService, RouteService
from ledger.v1 import broker_pb2_grpc, nameserver_pb2_grpc
from raft.transport.cluster_secret import SecretCredentials, SecretError
from raft.transport.node_proof import NAME_SERVER, NodeProofs
from raft.transport.streams import server_options
from raft.v1 import raft_pb2_grpc

log = logging.getLogger("ledgermq.nameserver")

STOP_GRACE_S = 1.0
# As the defaults of nodes.
MAX_CONNECTIONS_OF_A_HOST = 1_000
MAX_UNREAD_BYTES = 128 << 20


class NameServerError(Exception):
    """`NameServerError` says that a name server cannot run. The error message names the reason and says what to do."""


@dataclass(frozen=True, slots=True)
class NameServerSecurity:
    """How a name server is protected, and how nodes prove themselves to it. By default every program may register."""

    # The cluster whose nodes may register with certificates.
    cluster: str = ""
    files: CertificateFiles | None = None
    cluster_secret_file: Path | None = None

    def identity(self) -> tuple[CertificateWatch | None, NodeProofs]:
        """Raises NameServerError."""
        try:
            if self.files is not None:
                watch = CertificateWatch(self.files, NameServerCertificate(self.files, self.cluster).check)
                return watch, NodeProofs(self.cluster, NAME_SERVER, CertificateCredentials(self.cluster, watch))
            if self.cluster_secret_file is not None:
                return None, NodeProofs(None, NAME_SERVER, SecretCredentials(self.cluster_secret_file))
        except (CertificateError, SecretError) as error:
            raise NameServerError(str(error)) from error
        return None, NodeProofs(None, NAME_SERVER, None)


class NameServer:
    """One name server, which runs from `start` to `stop` and serves gRPC at the address `listen`."""

    def __init__(self, listen: str, security: NameServerSecurity | None = None) -> None:
        """Raises NameServerError if a file of `security` cannot be used."""
        security = security or NameServerSecurity()
        self._watch, self._proofs = security.identity()
        self.registrations = Registrations(lambda: time.monotonic() * 1000)
        self._listen = listen
        delivered = Delivered()
        self._limits = ConnectionLimits(
            split_address(listen)[1],
            Limits(MAX_CONNECTIONS_OF_A_HOST, MAX_UNREAD_BYTES),
            delivered,
            nodes=self._proofs.proven_peers,
            proven=self._proofs.proven_peers,
            end_proofs=self._proofs.end,
        )
        self._limiting: asyncio.Task[None] | None = None
        self._server = aio.server(interceptors=[RequestGuard(delivered=delivered)], options=server_options(0))

    async def start(self) -> None:
        """Open the port and serve. Raises NameServerError if the port cannot be opened."""
        nameserver_pb2_grpc.add_NameServerServicer_to_server(
            NameServerService(self.registrations, self._proofs.node_of if self._proofs.are_needed else None),
            self._server,
        )
        raft_pb2_grpc.add_NodeProofServicer_to_server(self._proofs, self._server)
        routes = RouteService(self.registrations, tells_topics=not self._proofs.are_needed)
        broker_pb2_grpc.add_BrokerServicer_to_server(routes, self._server)
        try:
            if self._watch is not None:
                self._server.add_secure_port(self._listen, server_credentials(self._watch))
            else:
                self._server.add_insecure_port(self._listen)
        except RuntimeError as error:
            raise NameServerError(
                f"cannot listen on {self._listen}: is the port in use? Choose another address with `--listen`"
            ) from error
        await self._server.start()
        self._limiting = asyncio.create_task(ConnectionWatch([self._limits]).run(), name="limits of connections")
        log.info("the name server serves %s", self._listen)

    async def stop(self) -> None:
        if self._limiting is not None:
            self._limiting.cancel()
        await self._server.stop(STOP_GRACE_S)


def run_name_server(listen: str, log_format: Literal["text", "json"], security: NameServerSecurity) -> int:
    """Run a name server in the foreground until SIGTERM or SIGINT. Return the exit status."""
    set_up_logging(log_format, "info")
    try:
        uvloop.run(_serve_until_stopped(listen, security))
    except NameServerError as error:
        log.error("%s", error)
        return 1
    return 0


async def _serve_until_stopped(listen: str, security: NameServerSecurity) -> None:
    stopping = stop_requested()
    server = NameServer(listen, security)
    await server.start()
    try:
        await stopping.wait()
    finally:
        await server.stop()

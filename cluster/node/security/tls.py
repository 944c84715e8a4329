"""TLS of the ports of a node, and of its channels to other nodes.

gRPC asks at every new connection whether the certificate has changed, so a renewed one counts at once. Authorities that
change count for the next call to another node. During a rotation of an authority, the file `tls_ca` has the old one and
the new one.
"""

from __future__ import annotations

import ssl
import threading

import grpc
from grpc import aio

from cluster.node.security.certificates import CertificateWatch, node_dns_name
from ledger.client.connection.renewed_channel import RenewedChannel
from raft.transport.node_proof import Metadata, NodeProofs
from raft.transport.streams import MAX_MESSAGE_BYTES, channel_options


def server_credentials(watch: CertificateWatch) -> grpc.ServerCredentials:
    """Return the credentials of a gRPC port. Callers prove themselves later (certificate_proof.py)."""
    certificates = ServedCertificates(watch)
    # grpc's stubs do not know that None means "unchanged".
    return grpc.dynamic_ssl_server_credentials(certificates.first(), certificates.newer)  # type: ignore[arg-type]


class ServedCertificates:
    """What a gRPC port serves. gRPC asks before each handshake whether there are newer certificates.

    gRPC exchanges the certificates of a port without a lock around the handshakes that begin meanwhile. Two handshakes
    at the same moment as an exchange can end the process (`Check failed: prior > 0` in gRPC's sync.cc). So `newer` must
    return None as long as the files are the same; otherwise every caller that opens connections could end the node."""

    def __init__(self, watch: CertificateWatch) -> None:
        self._watch = watch
        self._served = watch.current
        # gRPC asks in threads of its own.
        self._lock = threading.Lock()

    def first(self) -> grpc.ServerCertificateConfiguration:
        return self._configuration()

    def newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates of the files, or None if they are those that this port serves already."""
        with self._lock:
            if (now := self._watch.current) is self._served:
                return None
            self._served = now
            return self._configuration()

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self._served.key, self._served.certificate)])


def http_context(watch: CertificateWatch) -> ssl.SSLContext:
    """Return the TLS context of the HTTP port. It takes renewed certificates for new connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def load() -> None:
        context.load_cert_chain(watch.files.certificate, watch.files.key)

    load()
    watch.on_change.append(load)
    return context


class TlsDialer:
    """Opens channels to other nodes with TLS. TLS itself checks that the other side is the node that was meant: its
    certificate must have the name of this node of this cluster. Implements `raft.transport.dialing.Dialer`."""

    def __init__(self, cluster: str, watch: CertificateWatch, proofs: NodeProofs) -> None:
        self._cluster = cluster
        self._watch = watch
        self._proofs = proofs

    def channel(self, node: int, address: str, largest_answer: int = MAX_MESSAGE_BYTES) -> aio.Channel:
        name = ("grpc.ssl_target_name_override", node_dns_name(self._cluster, node))
        options = (*channel_options(largest_answer), name)

        def make() -> aio.Channel:
            return aio.secure_channel(address, grpc.ssl_channel_credentials(self._watch.current.ca), options=options)

        return RenewedChannel(make, lambda: self._watch.current.ca)

    async def prove(self, channel: aio.Channel, node: int) -> Metadata:
        return await self._proofs.prove(channel, node)

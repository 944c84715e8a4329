"""TLS of the ports of a node, and of its channels to other nodes.

gRPC asks for the server's certificate at every new connection, so a renewed certificate counts at once. Channels to
other nodes keep the authorities that they were opened with. During a rotation of an authority, the file `tls_ca` has
the old one and the new one.
"""

from __future__ import annotations

import ssl

import grpc
from grpc import aio

from cluster.node.security.certificates import CertificateWatch, node_dns_name
from raft.transport.node_proof import Metadata, NodeProofs
from raft.transport.streams import MAX_MESSAGE_BYTES, channel_options


def server_credentials(watch: CertificateWatch) -> grpc.ServerCredentials:
    """Return the credentials of a gRPC port. Callers prove themselves later (certificate_proof.py)."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        now = watch.current
        return grpc.ssl_server_certificate_configuration([(now.key, now.certificate)])

    return grpc.dynamic_ssl_server_credentials(configuration(), configuration)


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
        credentials = grpc.ssl_channel_credentials(self._watch.current.ca)
        name = ("grpc.ssl_target_name_override", node_dns_name(self._cluster, node))
        return aio.secure_channel(address, credentials, options=(*channel_options(largest_answer), name))

    async def prove(self, channel: aio.Channel, node: int) -> Metadata:
        return await self._proofs.prove(channel, node)

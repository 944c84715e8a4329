"""Refuses the own certificate of a node or a name server if it cannot prove it to others.

The check of a node uses the node's own `tls_ca`, because all nodes and clients of a cluster trust the same authorities.
What is checked depends on the certificate:

    has URIs ledgermq://...   an authority must have signed it, and one of the URIs must be the one of this node
    has none                  a node with peers refuses it; a node alone accepts it, also from a public authority

A node with peers makes the same check as the peers (certificate_proof.py). It also looks for its DNS name, because the
TLS of the peers needs this name.

A name server needs its DNS name too, by which the TLS of the nodes knows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509

from cluster.node.security.certificate_proof import (
    FLAWS,
    MAX_CHAIN_BYTES,
    check_as_caller,
    check_as_receiver,
    signed_chain,
    uris_of,
)
from cluster.node.security.certificates import (
    CertificateError,
    CertificateFiles,
    Certificates,
    node_dns_name,
    node_uri,
)
from raft.transport.node_proof import NAME_SERVER

_SCHEME = "ledgermq://"


class OwnCertificate:
    """Knows what the certificate of one node must be. `has_peers` says whether other nodes must accept it."""

    def __init__(self, files: CertificateFiles, cluster: str, node: int, *, has_peers: bool) -> None:
        self._files = files
        self._uri = node_uri(cluster, node)
        self._dns_name = node_dns_name(cluster, node)
        self._has_peers = has_peers
        self._way_out = f"issue one with `ledgermq certs issue node {node} --cluster {cluster} --host HOST`"

    def check(self, certificates: Certificates) -> None:
        """Raises CertificateError if the certificate cannot prove this node."""
        chain = x509.load_pem_x509_certificates(certificates.certificate)
        named = [uri for uri in _uris(chain[0]) if uri.startswith(_SCHEME)]
        if not named and not self._has_peers:
            return
        self._check_name(named)
        authorities = x509.load_pem_x509_certificates(certificates.ca)
        try:
            signed = signed_chain(chain, authorities)
        except FLAWS as error:
            raise CertificateError(
                f"no authority in the `tls_ca` file {self._files.ca} has signed the certificate "
                f"{self._files.certificate}: {self._way_out} in the directory of the cluster's authority, or add the "
                "authority of the certificate to the file"
            ) from error
        if self._has_peers:
            self._check_as_peers(certificates, signed, authorities)

    def _check_name(self, named: Sequence[str]) -> None:
        if not named:
            raise CertificateError(
                f"the certificate {self._files.certificate} does not have the URI {self._uri}, by which other nodes "
                f"know this node: {self._way_out}"
            )
        if self._uri not in named:
            raise CertificateError(
                f"the certificate {self._files.certificate} is for {', '.join(named)}, and this node is {self._uri}: "
                f"copy the files of this node, or {self._way_out}"
            )

    def _check_as_peers(
        self, certificates: Certificates, chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
    ) -> None:
        try:
            if len(certificates.certificate) > MAX_CHAIN_BYTES:
                raise ValueError(f"the file has more than {MAX_CHAIN_BYTES} bytes")
            check_as_caller(chain, authorities)
            check_as_receiver(chain, authorities, self._dns_name)
        except FLAWS as error:
            raise CertificateError(
                f"other nodes would refuse the certificate {self._files.certificate} ({error}). It needs the DNS name "
                f"{self._dns_name}, and must be for servers and for clients: {self._way_out}"
            ) from error


class NameServerCertificate:
    """Knows what the certificate of a name server of one cluster must be."""

    def __init__(self, files: CertificateFiles, cluster: str) -> None:
        self._files = files
        self._cluster = cluster

    def check(self, certificates: Certificates) -> None:
        """Raises CertificateError if nodes of the cluster would refuse the certificate."""
        name = node_dns_name(self._cluster, NAME_SERVER)
        try:
            check_as_receiver(
                x509.load_pem_x509_certificates(certificates.certificate),
                x509.load_pem_x509_certificates(certificates.ca),
                name,
            )
        except FLAWS as error:
            raise CertificateError(
                f"the nodes of cluster {self._cluster} would refuse the certificate {self._files.certificate} "
                f"({error}). It needs the DNS name {name}, and an authority in {self._files.ca} must have signed it: "
                f"issue one with `ledgermq certs issue nameserver --cluster {self._cluster} --host HOST`"
            ) from error


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        return uris_of(certificate)
    except FLAWS:
        return []

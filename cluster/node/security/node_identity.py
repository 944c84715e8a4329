"""How this node proves itself to other nodes: by its certificate, by the cluster secret, or not at all."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from cluster.node.security.certificate_proof import CertificateCredentials
from cluster.node.security.certificates import CertificateError, CertificateFiles, CertificateWatch
from cluster.node.security.own_certificate import OwnCertificate
from cluster.node.security.tls import TlsDialer
from cluster.node.settings import NodeSettings, SettingsError
from raft.transport.cluster_secret import SecretCredentials, SecretError
from raft.transport.dialing import Dialer, PlainDialer
from raft.transport.node_proof import NodeProofs

log = logging.getLogger("ledgermq.node.security")


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """`watch` is None without TLS."""

    proofs: NodeProofs
    dialer: Dialer
    watch: CertificateWatch | None


def node_identity(settings: NodeSettings, *, is_reachable: bool = True) -> NodeIdentity:
    """Return what the settings say. `is_reachable` says whether other nodes can reach this node at all. Raises
    SettingsError if a file cannot be used."""
    cluster, node = settings.cluster, settings.node
    try:
        if (files := certificate_files(settings)) is not None:
            has_peers = settings.join or settings.peers.keys() != {node}
            watch = CertificateWatch(files, OwnCertificate(files, cluster, node, has_peers=has_peers).check)
            proofs = NodeProofs(cluster, node, CertificateCredentials(cluster, watch))
            return NodeIdentity(proofs, TlsDialer(cluster, watch, proofs), watch)
        if settings.cluster_secret_file is not None:
            proofs = NodeProofs(cluster, node, SecretCredentials(settings.cluster_secret_file))
            return NodeIdentity(proofs, PlainDialer(proofs), None)
    except (CertificateError, SecretError) as error:
        raise SettingsError(str(error)) from error
    if is_reachable:
        log.warning(
            "every program that reaches %s can speak as a node of this cluster: set `tls_certificate`, `tls_key` and "
            "`tls_ca`, or `cluster_secret_file`",
            settings.listen,
        )
    return NodeIdentity(NodeProofs(cluster, node, None), PlainDialer(), None)


def certificate_files(settings: NodeSettings) -> CertificateFiles | None:
    certificate, key, ca = settings.tls_certificate, settings.tls_key, settings.tls_ca
    return None if certificate is None or key is None or ca is None else CertificateFiles(certificate, key, ca)

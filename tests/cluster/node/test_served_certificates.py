"""Tests of the certificates that a gRPC port serves."""

from __future__ import annotations

from pathlib import Path

from cluster.node.security.certificates import CertificateFiles, CertificateWatch
from cluster.node.security.tls import ServedCertificates
from tests.cluster.secured import node_files, write_authority


def test_grpc_gets_certificates_again_only_after_the_files_have_changed(tmp_path: Path) -> None:
    """gRPC ends the process if it exchanges certificates while two callers connect. Before, it exchanged them at every
    connection, and a caller that opened connections ended three nodes in 10 s."""
    authority = write_authority(tmp_path)
    files = node_files(tmp_path, authority, 1)
    watch = CertificateWatch(CertificateFiles(files["tls_certificate"], files["tls_key"], files["tls_ca"]))
    served = ServedCertificates(watch)
    assert [served.newer() for _ in range(3)] == [None] * 3
    node_files(tmp_path, authority, 1)  # a renewed certificate
    assert served.newer() is not None
    assert served.newer() is None
    files["tls_certificate"].write_text("garbage")  # the port goes on with what it has
    assert served.newer() is None

"""Certificates for tests: an authority, and the settings of nodes and clients that use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.authority import DAYS, Authority, new_authority, write_pair
from raft.transport.cluster_secret import new_secret
from tests.cluster.fleet import Fleet

PASSWORD = "correct horse battery"


def write_secret(path: Path, *secrets: str) -> Path:
    path.write_text("\n".join(secrets or (new_secret(),)) + "\n")
    path.chmod(0o600)
    return path


def write_authority(directory: Path, cluster: str = "test") -> Authority:
    authority = new_authority(cluster)
    write_pair(directory, "ca", authority.pair, replace=True)
    return authority


def node_files(directory: Path, authority: Authority, node: int, name: str = "", *, days: int = DAYS) -> dict[str, Any]:
    """Write the certificate of a node, which is valid for `days`, and return the settings that name it."""
    pair = authority.node(node, ["localhost", "127.0.0.1"], days)
    certificate, key = write_pair(directory, name or f"node-{node}", pair, replace=True)
    return {"tls_certificate": certificate, "tls_key": key, "tls_ca": directory / "ca.pem"}


def tls_fleet(directory: Path, nodes: int = 3, **settings: Any) -> Fleet:
    """Return a fleet whose nodes use TLS."""
    authority = write_authority(directory)
    fleet = Fleet(directory, nodes, **settings)
    for node in fleet.nodes:
        fleet.override(node, **node_files(directory, authority, node))
    return fleet

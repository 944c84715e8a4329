"""Writes a settings file for each node of a restored cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.local.toml_text import toml_text

_HTTP_OFFSET = 1


def settings_text(node: int, cluster: str, nodes: Mapping[int, str], directory: Path) -> str:
    """Return the settings of a node whose data directory is in `directory`, as TOML."""
    host, _, port = nodes[node].rpartition(":")
    lines = [
        f"# Settings of node {node} of the restored cluster. Copy them with its data directory to its machine,",
        "# and add what the old cluster had: tls_*, authentication, secrets_key_file, retention_* and others.",
        f"node = {node}",
        f"cluster = {toml_text(cluster)}",
        f"data = {toml_text(str(directory / f'node-{node}'))}",
        f"listen = {toml_text(nodes[node])}",
        f"http = {toml_text(f'{host}:{int(port) + _HTTP_OFFSET}')}",
        f"cluster_secret_file = {toml_text(str(directory / 'cluster.secret'))}",
        "",
        "[peers]",
        *(f"{each} = {toml_text(address)}" for each, address in sorted(nodes.items())),
    ]
    return "\n".join(lines) + "\n"

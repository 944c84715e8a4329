"""Writes a settings file for each node of a restored cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_HTTP_OFFSET = 1


def settings_text(node: int, cluster: str, nodes: Mapping[int, str], directory: Path) -> str:
    """Return the settings of a node whose data directory is in `directory`, as TOML."""
    host, _, port = nodes[node].rpartition(":")
    lines = [
        f"# Settings of node {node} of the restored cluster. Copy them with its data directory to its machine,",
        "# and add what the old cluster had: tls_*, authentication, secrets_key_file, retention_* and others.",
        f"node = {node}",
        f"cluster = {json.dumps(cluster)}",
        f"data = {json.dumps(str(directory / f'node-{node}'))}",
        f"listen = {json.dumps(nodes[node])}",
        f"http = {json.dumps(f'{host}:{int(port) + _HTTP_OFFSET}')}",
        f"cluster_secret_file = {json.dumps(str(directory / 'cluster.secret'))}",
        "",
        "[peers]",
        *(f"{each} = {json.dumps(address)}" for each, address in sorted(nodes.items())),
    ]
    return "\n".join(lines) + "\n"

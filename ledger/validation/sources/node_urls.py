"""Where the HTTP port of a running node is reached, by what the node says of itself.

The setting `http` of a node in a container is usually 0.0.0.0:9872, which names no host: a program that asks this
address asks its own machine. The gRPC address of the node is the one that other machines use.
"""

from __future__ import annotations

from ledger.client.records import NodeStatus
from ledger.local_socket import is_socket

_WILDCARDS = ("0.0.0.0", "[::]", "")


def http_url(node: NodeStatus, *, tls: bool) -> str:
    """Return the URL of the HTTP port of a node, such as "https://queue-1:9872", without a slash at its end; "" if the
    node has none. If the node listens on all addresses, the URL has the host of its gRPC address."""
    if not node.http_address:
        return ""
    host, _, port = node.http_address.rpartition(":")
    if host in _WILDCARDS:
        # A node with a local socket is on this machine.
        host = "localhost" if is_socket(node.address) else node.address.rpartition(":")[0]
    return f"{'https' if tls else 'http'}://{host}:{port}"

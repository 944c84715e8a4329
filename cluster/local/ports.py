"""Chooses free ports for a local cluster.

Another local cluster that is starting at the same time can choose the same free port. A program therefore holds the
lock `turn` from the choice of the ports until its nodes listen on them. Each user of the machine has a separate lock.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster.local.file_lock import locked
from cluster.local.plan import HOST, DevError

# The ports are below 32768. From there on Linux gives ports to outgoing connections, which could take a node's port
# while the node is down.
_FIRST_CHOICE = 9871
_CHOICES = range(20_000, 32_000)


@contextmanager
def turn() -> Iterator[None]:
    """Wait until no other program holds the lock for choosing ports, and hold the lock while the body of the `with`
    block runs. Raises DevError if the lock file cannot be opened."""
    path = Path(tempfile.gettempdir()) / f"ledgermq-dev-ports-{os.getuid()}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except OSError as failure:
            raise DevError(
                f"cannot open {path}, the lock with which local clusters choose ports: {failure.strerror}"
            ) from failure
        yield


def choose_ports(nodes: int, base_port: int | None, of_a_node: int = 2) -> tuple[int, ...]:
    """Choose a port for each node. Each chosen port is free, and so are those after it, up to `of_a_node` ports
    together: the node uses the next one for HTTP, and the one after it for RocketMQ clients. With `base_port`, the
    first node gets the port `base_port`. Raises DevError."""
    if base_port is not None:
        ports = _ports_from(base_port, nodes, of_a_node)
        taken = [port for first in ports for port in range(first, first + of_a_node) if not port_is_free(port)]
        if taken:
            raise DevError(f"port {taken[0]} of {HOST} is in use: choose another --base-port")
        return ports
    for base in (_FIRST_CHOICE, *random.sample(_CHOICES, 200)):
        ports = _ports_from(base, nodes, of_a_node)
        if all(_are_free(port, of_a_node) for port in ports):
            return ports
    raise DevError(f"found no {of_a_node * nodes} neighbouring free ports on {HOST}: choose a --base-port")


def choose_next_port(last: int, of_a_node: int = 2) -> int:
    """Choose a port for one more node. The last node uses `of_a_node` ports from `last` on. The ports behind them are
    chosen if they are free, and otherwise other free ports."""
    behind = last + of_a_node
    if behind + of_a_node <= 65_536 and _are_free(behind, of_a_node):
        return behind
    return choose_ports(1, None, of_a_node)[0]


def port_is_free(port: int) -> bool:
    """Return True if a server can listen on `port` now. Connections of an earlier server that are still closing do
    not make a port busy."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _ports_from(base: int, nodes: int, of_a_node: int) -> tuple[int, ...]:
    end = base + of_a_node * nodes
    if end > 65_536:
        raise DevError(f"{nodes} nodes need the ports {base} to {end - 1}: choose a smaller --base-port")
    return tuple(range(base, end, of_a_node))


def _are_free(first: int, count: int) -> bool:
    return all(port_is_free(port) for port in range(first, first + count))

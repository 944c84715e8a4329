"""Which ports a local cluster gets.

That nobody is bound to a port does not say that nobody is about to be. So whoever chooses ports, or starts nodes on
those it has, takes the turn for that, one at a time for each user of the machine, until they listen.
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

# Below the ports that Linux gives to outgoing connections (32768 and up), which would take ours while a node is down.
_FIRST_CHOICE = 9871
_CHOICES = range(20_000, 32_000)


@contextmanager
def turn() -> Iterator[None]:
    """Waits for it. Raises DevError where the lock cannot be opened."""
    path = Path(tempfile.gettempdir()) / f"ledgermq-dev-ports-{os.getuid()}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except OSError as failure:
            raise DevError(f"cannot open {path}, by which local clusters take turns: {failure.strerror}") from failure
        yield


def choose_ports(nodes: int, base_port: int | None) -> tuple[int, ...]:
    """A port for each node such that it and the one above (HTTP) are free: from `base_port` on where given."""
    if base_port is not None:
        ports = _ports_from(base_port, nodes)
        taken = [port for port in ports if not _pair_is_free(port)]
        if taken:
            raise DevError(f"port {taken[0]} or {taken[0] + 1} of {HOST} is in use: give another --base-port")
        return ports
    for base in (_FIRST_CHOICE, *random.sample(_CHOICES, 200)):
        ports = _ports_from(base, nodes)
        if all(_pair_is_free(port) for port in ports):
            return ports
    raise DevError(f"found no {2 * nodes} neighbouring free ports on {HOST}: give --base-port")


def choose_next_port(last: int) -> int:
    """For one more node, behind the `last` one's where that is free."""
    behind = last + 2
    return behind if behind < 65_535 and _pair_is_free(behind) else choose_ports(1, None)[0]


def port_is_free(port: int) -> bool:
    """Whether a server could listen there now. Connections that linger from an earlier one do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _ports_from(base: int, nodes: int) -> tuple[int, ...]:
    if base + 2 * nodes > 65_536:
        raise DevError(f"{nodes} nodes need the ports {base} to {base + 2 * nodes - 1}: give a smaller --base-port")
    return tuple(range(base, base + 2 * nodes, 2))


def _pair_is_free(port: int) -> bool:
    return port_is_free(port) and port_is_free(port + 1)

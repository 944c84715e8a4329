"""Starts and ends the node processes of a local cluster, several at a time."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from cluster.local.node_process import DevNode
from cluster.local.plan import DevError
from cluster.local.ports import port_is_free
from cluster.local.state import ask

_STOP_TIMEOUT_S = 10.0
# The port of a killed process may stay in use for a moment.
_PORT_TIMEOUT_S = 1.0
_POLL_SECONDS = 0.05


def start_nodes(nodes: Sequence[DevNode], timeout_s: float) -> None:
    """Start the processes of these nodes. Return when every node listens on its ports, or after `timeout_s` seconds.
    Do not wait for a node that has ended.

    Start what can start: if another program uses a port of one of the nodes, the other nodes start, and then DevError
    is raised."""
    obstacles: list[str] = []
    for node in nodes:
        try:
            _wait_for_ports(node)
        except DevError as error:
            obstacles.append(str(error))
        else:
            node.spawn()
    deadline = time.monotonic() + timeout_s
    while any(map(_is_about_to_listen, nodes)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if obstacles:
        running = ", ".join(f"node {node.node}" for node in nodes if node.pid is not None) or "no other node"
        raise DevError(f"{'; '.join(obstacles)}. {running} of those that were to start runs")


def wait_answers(node: DevNode, timeout_s: float, *, is_secure: bool = False) -> None:
    """Wait until the node answers a request. A secured node that is no member yet knows no user, so it is enough that
    it listens. Raises DevError if the node's process ends, or if the node does not
    answer within `timeout_s` seconds. The error message contains the last lines of the node's log."""
    deadline = time.monotonic() + timeout_s
    while port_is_free(_port(node.address)) if is_secure else ask(node.address) is None:
        if node.pid is None or time.monotonic() >= deadline:
            what = "ended while starting" if node.pid is None else f"does not answer after {timeout_s:g} s"
            raise DevError(f"node {node.node} {what}. The end of its log:\n{node.log_tail() or '(it is empty)'}")
        time.sleep(_POLL_SECONDS)


def end_nodes(nodes: Sequence[DevNode]) -> None:
    """End the processes with SIGTERM, and with SIGKILL if they still run after 10 s."""
    for node in nodes:
        node.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    for node in nodes:
        if not node.wait_stopped(max(0.0, deadline - time.monotonic())):
            kill_node(node)


def kill_node(node: DevNode) -> None:
    """Kill the node's process with SIGKILL. Return when the process has ended; raise DevError if it does not end."""
    node.send(signal.SIGKILL)
    if not node.wait_stopped(_STOP_TIMEOUT_S):
        raise DevError(f"node {node.node} (pid {node.pid}) still runs after SIGKILL: its disk may hang, try again")


def _wait_for_ports(node: DevNode) -> None:
    deadline = time.monotonic() + _PORT_TIMEOUT_S
    for address in (node.address, node.http):
        while not port_is_free(_port(address)):
            if time.monotonic() >= deadline:
                raise DevError(f"another program uses {address}, the address of node {node.node}: stop that program")
            time.sleep(_POLL_SECONDS)


def _is_about_to_listen(node: DevNode) -> bool:
    return node.pid is not None and any(port_is_free(_port(address)) for address in (node.address, node.http))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])

"""Creates the network namespaces of a run. The namespaces form a small network: each node has its own namespace, and a
bridge in the namespace of this process connects all of them.

    this process ── bridge 10.88.0.254 ─┬─ veth ─ namespace of node 1: 10.88.0.1
                                        ├─ veth ─ namespace of node 2: 10.88.0.2
                                        └─ ...

This process first moves itself into a new network namespace. After this step the run cannot reach any other network,
and the kernel removes the bridge when the process ends. The process must leave the machine's network before any other
thread of the process uses the network.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chaos.errors import ChaosError
from chaos.live.hosts.namespace import Namespace, leave_the_network
from chaos.live.hosts.shell import run

PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux"}
NETWORK = "10.88.0"
_OURS = 254
_BRIDGE = "hub"


class Namespaces:
    """Creates and removes the network namespaces of one run, called `PREFIX-NODE`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def enter(self) -> None:
        """Move this process into a separate, empty network. Raises ChaosError if the process is not allowed to
        create network namespaces."""
        leave_the_network()
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", _BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{NETWORK}.{_OURS}/24", "dev", _BRIDGE)
        run("ip", "link", "set", _BRIDGE, "up")

    def add(self, node: int) -> None:
        """Create the network namespace in which a node runs."""
        name = self._name(node)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"veth{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"veth{node}", "master", _BRIDGE, "up")
        for command in ("link set lo up", f"address add {self.address(node)}/24 dev eth0", "link set eth0 up"):
            run("ip", "-n", name, *command.split())

    def remove(self, node: int) -> None:
        """Remove the network namespace in which a node ran. Do nothing if the node has no namespace."""
        with suppress(ChaosError):
            run("ip", "netns", "delete", self._name(node))

    def address(self, node: int) -> str:
        return f"{NETWORK}.{node}"

    def of(self, node: int) -> Namespace:
        return Namespace(Path("/run/netns") / self._name(node))

    def _name(self, node: int) -> str:
        return f"{self._prefix}-{node}"

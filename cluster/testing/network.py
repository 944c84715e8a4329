"""The network between the nodes of a test cluster: a process that carries their connections (links.py)."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations, permutations
from pathlib import Path

from cluster.testing.ports import HOST, listening_socket
from cluster.testing.processes import ClusterError, ClusterProcess, ForkingProcess

_ANSWER_S = 10.0


class NodeNetwork:
    """The links between all nodes, from the creation of the object until `stop`."""

    def __init__(self, forking: ForkingProcess, ports: Mapping[int, int], log: Path) -> None:
        """`ports` has the port of each node. The output of the links' process goes to the file `log`."""
        pairs = list(permutations(ports, 2))
        listeners = {pair: listening_socket() for pair in pairs}
        self._addresses = {pair: f"{HOST}:{each.getsockname()[1]}" for pair, each in listeners.items()}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_S)
        links = [(source, target, ports[target], listeners[source, target]) for source, target in pairs]
        try:
            with open(log, "ab") as output:
                self._process: ClusterProcess = forking.start_links(theirs, links, output)
        finally:
            theirs.close()
            for listener in listeners.values():
                listener.close()
        self.is_whole = True

    def addresses_from(self, node: int) -> dict[int, str]:
        """Return the address at which this node reaches each other node."""
        return {target: address for (source, target), address in self._addresses.items() if source == node}

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Cut the connections between the nodes of each pair; all other pairs are whole. Raises ClusterError."""
        cut = list(pairs)
        try:
            self._control.sendall(json.dumps(cut).encode())
            answer = self._control.recv(64)
        except OSError:
            answer = b""
        if not answer:
            raise ClusterError("the process that carries the connections between the nodes has ended")
        self.is_whole = not cut

    def stop(self) -> None:
        self._control.close()
        self._process.kill()


def parted(sides: Iterable[Collection[int]], nodes: Collection[int]) -> list[tuple[int, int]]:
    """Return the pairs of nodes that are on different sides. The nodes that no side names are one more side.

    Raises ClusterError if a node is named twice, or does not exist."""
    named = [set(side) for side in sides]
    everyone = [node for side in named for node in side]
    if strange := sorted(set(everyone) - set(nodes)):
        raise ClusterError(f"there is no node {strange[0]}: the nodes are {', '.join(map(str, nodes))}")
    if len(set(everyone)) < len(everyone):
        raise ClusterError("a node can be on one side of a partition only")
    named.append(set(nodes) - set(everyone))
    return [(one, other) for a, b in combinations(named, 2) for one in sorted(a) for other in sorted(b)]

"""Cuts links between nodes and drops packets, by iptables rules in the network namespaces of the nodes.

The receiving node's namespace drops the packets, so each direction of a link has its own rule. The counters of the
rules are the evidence that packets were dropped. The rules never cut clients off from nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chaos.errors import ChaosError
from chaos.live.hosts.namespace import Namespace

PROGRAMS = {"iptables": "iptables", "nsenter": "util-linux"}
_CHAIN = "LEDGERMQ-CHAOS"


@dataclass(frozen=True, slots=True)
class NodeLink:
    """One direction of a link: from one node to another."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """A share of the packets on a link is dropped (1.0: all packets)."""

    link: NodeLink
    share: float


class LinkRules:
    """Holds the rules for the links between the nodes of a run. `namespace(node)` returns None while the node has no
    namespace. `address(node)` returns the node's IP address.
    """

    def __init__(
        self, nodes: Sequence[int], namespace: Callable[[int], Namespace | None], address: Callable[[int], str]
    ) -> None:
        self._nodes = nodes
        self._namespace = namespace
        self._address = address
        self._losses: tuple[LinkLoss, ...] = ()
        self._dropped = 0

    def set(self, losses: Iterable[LinkLoss]) -> None:
        """Replace all present rules by the given rules."""
        self._dropped += self._counted()
        self._losses = tuple(losses)
        for node in self._nodes:
            self.apply(node)

    def heal(self) -> int:
        """Remove all rules. Return the number of packets that the rules dropped."""
        self.set(())
        dropped, self._dropped = self._dropped, 0
        return dropped

    def apply(self, node: int) -> None:
        """Apply the rules of this node, for example after its namespace was created again."""
        namespace = self._namespace(node)
        if namespace is None:
            return
        self._make_chain(namespace)
        for loss in self._losses:
            if loss.link.target == node:
                some = () if loss.share >= 1 else _some(loss.share)
                self._iptables(namespace, "-A", _CHAIN, "-s", self._address(loss.link.source), *some, "-j", "DROP")

    def _make_chain(self, namespace: Namespace) -> None:
        try:
            self._iptables(namespace, "-F", _CHAIN)
        except ChaosError:
            self._iptables(namespace, "-N", _CHAIN)
            self._iptables(namespace, "-I", "INPUT", "-j", _CHAIN)

    def _counted(self) -> int:
        """Return how many packets the current rules have dropped."""
        return sum(self._counted_by(node) for node in self._nodes)

    def _counted_by(self, node: int) -> int:
        namespace = self._namespace(node)
        if namespace is None or not self._losses:
            return 0
        try:
            listed = self._iptables(namespace, "-nvxL", _CHAIN)
        except ChaosError:  # the namespace is new, so it has no counters
            return 0
        rows = (line.split() for line in listed.splitlines()[2:])
        return sum(int(row[0]) for row in rows if row and row[2] == "DROP")

    @staticmethod
    def _iptables(namespace: Namespace, *arguments: str) -> str:
        return namespace.run("iptables", "-w", *arguments)


def _some(share: float) -> tuple[str, ...]:
    return ("-m", "statistic", "--mode", "random", "--probability", f"{share:.4f}")


def partition(nodes: Sequence[int], sides: Iterable[Iterable[int]]) -> list[LinkLoss]:
    """Return rules that lose all packets on each link between two nodes that are not together on any side."""
    together = {(one, other) for side in map(tuple, sides) for one in side for other in side}
    return [
        LinkLoss(NodeLink(one, other), 1.0)
        for one in nodes
        for other in nodes
        if one != other and (one, other) not in together
    ]

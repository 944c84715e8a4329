"""Cuts between nodes, and loss: iptables rules in the network namespaces of the nodes.

A packet from one node to another is dropped where it arrives, so each direction is a rule of its own; the counters of
the rules are the evidence that something was really dropped. Clients are never cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chaos.errors import ChaosError
from chaos.live.hosts.namespace import Namespace

PROGRAMS = {"iptables": "iptables", "nsenter": "util-linux"}
_CHAIN = "LEDGERMQ-CHAOS"


@dataclass(frozen=True, slots=True)
class Link:
    """What goes from one node to another."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Loss:
    """On a link: this share of packets is dropped (1.0: all)."""

    link: Link
    share: float


class LinkRules:
    """`namespace(node)`: None while the node has none. `address(node)`: its IP address."""

    def __init__(
        self, nodes: Sequence[int], namespace: Callable[[int], Namespace | None], address: Callable[[int], str]
    ) -> None:
        self._nodes = nodes
        self._namespace = namespace
        self._address = address
        self._losses: tuple[Loss, ...] = ()
        self._dropped = 0

    def set(self, losses: Iterable[Loss]) -> None:
        """These, and no others, from now on."""
        self._dropped += self._counted()
        self._losses = tuple(losses)
        for node in self._nodes:
            self.apply(node)

    def heal(self) -> int:
        """No rules any more. Says how many packets they dropped."""
        self.set(())
        dropped, self._dropped = self._dropped, 0
        return dropped

    def apply(self, node: int) -> None:
        """The rules of this node as they should be: also after its namespace was made anew."""
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
        """Packets that the rules in force have dropped."""
        return sum(self._counted_by(node) for node in self._nodes)

    def _counted_by(self, node: int) -> int:
        namespace = self._namespace(node)
        if namespace is None or not self._losses:
            return 0
        try:
            listed = self._iptables(namespace, "-nvxL", _CHAIN)
        except ChaosError:  # made anew meanwhile, and so without counters
            return 0
        rows = (line.split() for line in listed.splitlines()[2:])
        return sum(int(row[0]) for row in rows if row and row[2] == "DROP")

    @staticmethod
    def _iptables(namespace: Namespace, *arguments: str) -> str:
        return namespace.run("iptables", "-w", *arguments)


def _some(share: float) -> tuple[str, ...]:
    return ("-m", "statistic", "--mode", "random", "--probability", f"{share:.4f}")


def partition(nodes: Sequence[int], sides: Iterable[Iterable[int]]) -> list[Loss]:
    """Whoever is not on a side together is cut off from one another."""
    together = {(one, other) for side in map(tuple, sides) for one in side for other in side}
    return [
        Loss(Link(one, other), 1.0) for one in nodes for other in nodes if one != other and (one, other) not in together
    ]

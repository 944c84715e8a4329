"""Faults of the network between nodes: partitions, and packets that are lost, late, reordered or slowed down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from chaos.live.hosts.link_rules import LinkLoss, NodeLink, partition
from chaos.live.hosts.link_shaper import LinkShape
from chaos.words import node_names
from ledger.words import counted

Sides = Callable[[FaultSite, Sequence[int]], Iterable[Iterable[int]]]


class Partition(Fault):
    """Nodes reach each other only if they are on the same side. `sides(site, targets)` returns the sides as lists
    of nodes; a node can be on several sides."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        sides = [sorted(side) for side in self._sides(site, targets)]
        site.environment.links.set(partition(site.environment.nodes, sides))
        groups = " and ".join(f"({', '.join(map(str, side))})" for side in sides if side)
        return f"nodes that reach each other: {groups}"

    def heal(self, site: FaultSite) -> str:
        return _dropped(site)


def halves(site: FaultSite, _: Sequence[int]) -> list[list[int]]:
    """Return two sides: a random majority of the nodes, and the remaining nodes."""
    nodes = list(site.environment.nodes)
    site.random.shuffle(nodes)
    half = len(nodes) // 2 + 1
    return [nodes[:half], nodes[half:]]


def alone(site: FaultSite, targets: Sequence[int]) -> list[list[int]]:
    """Return one side for each target, and one side with all remaining nodes."""
    return [*([node] for node in targets), [node for node in site.environment.nodes if node not in targets]]


def ring(site: FaultSite, _: Sequence[int]) -> list[list[int]]:
    """Divide the nodes into overlapping groups, so that every node reaches a majority, and no two nodes reach the same
    majority. With three nodes, the two outer nodes reach only the node in the middle.
    """
    if len(site.environment.nodes) <= 3:
        return bridge(site, ())
    nodes = list(site.environment.nodes)
    site.random.shuffle(nodes)
    return [[nodes[at], nodes[(at + 1) % len(nodes)]] for at in range(len(nodes))]


def bridge(site: FaultSite, _: Sequence[int]) -> list[list[int]]:
    """Return two halves that reach each other only through one node, which is not the leader. If the connecting node
    were the leader, the partition would have no effect, because followers send nothing to each other.
    """
    nodes = list(site.environment.nodes)
    site.random.shuffle(nodes)
    if nodes[0] == site.members.leader():
        nodes.reverse()
    middle, others = nodes[0], nodes[1:]
    half = len(others) // 2
    return [[middle, *others[:half]], [middle, *others[half:]]]


class OneWay(Fault):
    """All packets from the targets are lost, or all packets to the targets are lost."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        out = site.random.random() < 0.5
        others = [node for node in site.environment.nodes if node not in targets]
        links = [NodeLink(node, other) if out else NodeLink(other, node) for node in targets for other in others]
        site.environment.links.set(LinkLoss(link, 1.0) for link in links)
        return f"all packets {'from' if out else 'to'} {node_names(targets)} are lost"

    def heal(self, site: FaultSite) -> str:
        return _dropped(site)


class Lossy(Fault):
    """A share of the packets between all nodes is lost."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        share = site.random.choice((0.05, 0.15, 0.3))
        site.environment.links.set(LinkLoss(link, share) for link in _all_links(site))
        return f"{share:.0%} of all packets between nodes are lost"

    def heal(self, site: FaultSite) -> str:
        return _dropped(site)


class Shaped(Fault):
    """Packets on the links of the targets are delayed, reordered or slowed down, as `shape(site)` says."""

    def __init__(self, shape: Callable[[FaultSite], LinkShape]) -> None:
        self._shape = shape

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        shape = self._shape(site)
        links = [link for link in _all_links(site) if link.source in targets or link.target in targets]
        site.environment.shaper.set(links, shape)
        return str(shape)

    def heal(self, site: FaultSite) -> str:
        return site.environment.shaper.heal()


def late(site: FaultSite) -> LinkShape:
    return LinkShape(delay_ms=site.random.choice((20.0, 80.0, 250.0)), jitter_ms=10.0)


def out_of_order(site: FaultSite) -> LinkShape:
    return LinkShape(delay_ms=5.0, reorder=site.random.choice((0.1, 0.3)), duplicate=0.05)


def slow(site: FaultSite) -> LinkShape:
    return LinkShape(bytes_per_s=site.random.choice((50_000, 300_000)))


def _all_links(site: FaultSite) -> list[NodeLink]:
    nodes = site.environment.nodes
    return [NodeLink(one, other) for one in nodes for other in nodes if one != other]


def _dropped(site: FaultSite) -> str:
    dropped = site.environment.links.heal()
    if not dropped:
        raise NoEvidenceError("the rules dropped no packet")
    return f"{counted(dropped, 'packet')} dropped"

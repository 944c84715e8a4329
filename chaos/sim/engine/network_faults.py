"""Carries out the network faults between nodes, in both worlds of the simulator.

Each fault cuts or delays some one-way links between nodes for a while. Several faults can be active at the same time.
When a network fault ends, only the cuts and delays of this fault are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.targets import chance_of, target_of
from chaos.sim.world import SimNode

Pairs = list[tuple[int, int]]


class NetworkFaults:
    """Carries out the network faults of one run."""

    def __init__(self, loop: SimLoop, network: Network) -> None:
        self._loop = loop
        self._network = network
        # Counts calls of `heal`. A fault from before a `heal` has nothing left to take back.
        self._healed = 0

    def fire(self, event: FaultEvent, nodes: Sequence[SimNode]) -> bool:
        """Carry out the fault event if its kind is a network fault. Return True if the kind of the event is a
        network fault."""
        everyone = [node.node for node in nodes]
        target = target_of(event, nodes).node
        others = [node for node in everyone if node != target]
        shuffled, random = everyone.copy(), chance_of(event)
        random.shuffle(shuffled)
        match event.kind:
            case "cut_one_way":
                pair = [target, random.choice(others)]
                random.shuffle(pair)
                self._cut([(pair[0], pair[1])], event)
            case "isolate":
                self.isolate(target, nodes, event)
            case "deaf":
                self._cut([(other, target) for other in others], event)
            case "mute":
                self._cut([(target, other) for other in others], event)
            case "halves":
                self._cut(halves(shuffled, random), event)
            case "bridge":
                self._cut(halves(shuffled[1:], random, uneven=False), event)
            case "ring":
                self._cut(far_apart(shuffled, around=True), event)
            case "chain":
                self._cut(far_apart(shuffled, around=False), event)
            case "clog":
                self._network.clog(target, random.choice(others), event.for_ms)
            case "slow_link":
                self._slow(target, others, random.uniform(0.02, 0.4), event)
            case _:
                return False
        return True

    def isolate(self, node: int, nodes: Sequence[SimNode], event: FaultEvent) -> None:
        """Cut a node off from all other nodes. Clients can still reach the isolated node."""
        self._cut(links_of(node, nodes), event)

    def heal(self) -> None:
        self._healed += 1
        self._network.heal()

    def _cut(self, pairs: Pairs, event: FaultEvent) -> None:
        self._network.cut_links(pairs)
        self._afterwards(event, lambda: self._network.mend_links(pairs))

    def _slow(self, target: int, others: Sequence[int], seconds: float, event: FaultEvent) -> None:
        for other in others:
            self._network.link(target, other).slow_s = seconds
        self._afterwards(event, lambda: self._quicken(target, others))

    def _quicken(self, target: int, others: Sequence[int]) -> None:
        for other in others:
            self._network.link(target, other).slow_s = 0.0

    def _afterwards(self, event: FaultEvent, mend: Callable[[], None]) -> None:
        healed = self._healed

        def unless_healed() -> None:
            if self._healed == healed:
                mend()

        self._loop.call_later(event.for_ms / 1000, unless_healed)


def links_of(node: int, nodes: Sequence[SimNode]) -> Pairs:
    """Return all links between a node and the other nodes."""
    return both_ways([(node, other.node) for other in nodes if other.node != node])


def both_ways(pairs: Pairs) -> Pairs:
    return [each for a, b in pairs for each in ((a, b), (b, a))]


def halves(shuffled: Sequence[int], random: Random, *, uneven: bool = True) -> Pairs:
    """Return the links to cut so that the nodes form two groups that cannot reach each other. If `uneven` is true,
    the groups have random sizes, otherwise sizes that are as equal as possible."""
    size = random.randint(1, len(shuffled) - 1) if uneven else len(shuffled) // 2
    return both_ways([(a, b) for a in shuffled[:size] for b in shuffled[size:]])


def far_apart(order: Sequence[int], *, around: bool) -> Pairs:
    """Return the links to cut so that only nodes that are neighbours in this order can reach each other. If
    `around` is true, the first and the last node are neighbours too. In a ring of five nodes each node reaches a
    majority, and no two nodes reach the same majority."""
    count, pairs = len(order), []
    for i in range(count):
        for j in range(i + 1, count):
            apart = min(j - i, count - j + i) if around else j - i
            if apart > 1:
                pairs.append((order[i], order[j]))
    return both_ways(pairs)

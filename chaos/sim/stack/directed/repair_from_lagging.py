"""The fault `repair_from_lagging`: the last entry of a follower is damaged, and while it repairs its log, it reaches
only a node that does not have this entry.

    leader      o o o X     X is committed
    follower    o o o X     killed, X is damaged ──> repairs its log, and asks only the lagging node
    lagging     o o         cut off from all nodes but the follower

The follower acknowledged X and starts without it. It must be a suspect until it holds X again: otherwise the follower
and the lagging node could elect a leader without X.
"""

from __future__ import annotations

from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import both_ways
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

# How long the lagging node is cut off before the damage, in s.
LAGS_S = 0.6


class RepairFromLagging(DirectedFault):
    kind = "repair_from_lagging"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # The links that are cut.
        self._cut: list[tuple[int, int]] = []

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader, random = self.tools.leader(shard), chance_of(event)
        if leader is None or self._cut:
            return False
        voters = [each for each in self.tools.rosters.of(shard).voters if each is not leader and each.alive]
        if len(voters) < 2:
            return False
        follower, lagging = random.sample(voters, 2)
        if not self.tools.power.may_miss(follower):
            return False
        self._cut_off(lagging, follower)
        self.tools.loop.call_later(
            LAGS_S, self._damage, shard, follower, follower.process, lagging, random, event.for_ms / 1000
        )
        return False  # counted when the entry is damaged

    def _cut_off(self, node: StackNode, but_for: StackNode) -> None:
        """Cut the node off from all nodes but one."""
        others = [each for each in self.tools.nodes if each not in (node, but_for)]
        links = [*both_ways([(node.node, each.node) for each in others])]
        self.tools.network.cut_links(links)
        self._cut += links

    def _damage(
        self, shard: int, follower: StackNode, process: object, lagging: StackNode, random: Random, seconds: float
    ) -> None:
        if not self._cut:
            return  # healed
        mine, other = follower.part(shard).replica, lagging.part(shard).replica
        is_same = process is not None and follower.process is process
        if is_same and mine is not None and other is not None and self.tools.power.may_miss(follower):
            last = mine.log.last_index
            if other.log.last_index < last and self.tools.damages.flip(follower, shard, random, index=last):
                self._cut_off(follower, lagging)
                self.tools.happened[self.kind] += 1
                self.tools.loop.call_later(seconds, self.heal)
                return
        self.heal()

    def heal(self) -> None:
        self.tools.network.mend_links(self._cut)
        self._cut = []

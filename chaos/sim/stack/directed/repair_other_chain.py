"""The fault `repair_other_chain`: a leader is cut off with clients, so its log gets entries that no other node has.
It is killed, and an entry before them is damaged.

While the node repairs its log, the entries of the other nodes have the wanted indexes, but their chain does not lead to
the entries that follow the damage. The repair must not join them.
"""

from __future__ import annotations

from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import links_of
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode


class RepairOtherChain(DirectedFault):
    kind = "repair_other_chain"
    # Which entry is damaged: so many behind the last committed one. At least one more entry follows it.
    behind_commit = 0

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # The links that are cut.
        self._cut: list[tuple[int, int]] = []

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader = self.tools.leader(shard)
        if leader is None or self._cut or not self.tools.power.may_miss(leader):
            return False
        self._cut = links_of(leader.node, self.tools.nodes)
        self.tools.network.cut_links(self._cut)
        self.tools.loop.call_later(event.for_ms / 1000, self._damage, shard, leader, leader.process, chance_of(event))
        return False  # counted when the log is damaged before entries that differ

    def _damage(self, shard: int, node: StackNode, process: object, random: Random) -> None:
        if not self._cut:
            return  # healed
        replica, may_miss = node.part(shard).replica, self.tools.power.may_miss(node)
        is_same = process is not None and node.process is process
        if is_same and may_miss and replica is not None:
            commit, last = replica.driver.raft.commit, replica.log.last_index
            successor = self.tools.leader(shard)
            other = successor.part(shard).replica if successor is not None and successor is not node else None
            if (
                other is not None
                and replica.log.first_index <= commit < last - self.behind_commit
                and other.log.last_index > commit
            ):
                differs = other.log.first_index <= commit and other.log.chain(commit + 1) != replica.log.chain(
                    commit + 1
                )
                index = commit + self.behind_commit
                if differs and self.tools.damages.flip(node, shard, random, index=index):
                    self.tools.happened[self.kind] += 1
        self.heal()

    def heal(self) -> None:
        self.tools.network.mend_links(self._cut)
        self._cut = []

"""The fault `repair_other_chain`: a leader is cut off with clients, so its log gets entries that no other node has.
It is killed, and an entry before them is damaged.

While the node repairs its log, the entries of the other nodes have the wanted indexes, but their chain does not lead to
the entries that follow the damage. The repair must not join them.
"""

from __future__ import annotations

from random import Random

from chaos.sim.stack.directed.cut_off_leader import CutOffLeader
from chaos.sim.stack.node import StackNode


class RepairOtherChain(CutOffLeader):
    kind = "repair_other_chain"
    # Which entry is damaged: so many behind the last committed one. At least one more entry follows it.
    behind_commit = 0

    def strike(self, shard: int, node: StackNode, random: Random) -> None:
        replica, successor = node.part(shard).replica, self.tools.leader(shard)
        other = successor.part(shard).replica if successor is not None and successor is not node else None
        if replica is None or other is None:
            return
        commit, last = replica.driver.raft.commit, replica.log.last_index
        if not (replica.log.first_index <= commit < last - self.behind_commit and other.log.last_index > commit):
            return
        differs = other.log.first_index <= commit and other.log.chain(commit + 1) != replica.log.chain(commit + 1)
        if differs and self.tools.damages.flip(node, shard, random, index=commit + self.behind_commit):
            self.tools.happened[self.kind] += 1

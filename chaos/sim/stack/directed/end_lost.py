"""The fault `end_lost`: a leader that was cut off stops in order, and while it is down, its disk loses the last entries
of its log.

No other node has these entries, and no checkpoint has them, because they are not committed. Only the mark of the
orderly stop says that they were there.
"""

from __future__ import annotations

from random import Random

from chaos.sim.stack.directed.cut_off_leader import CutOffLeader
from chaos.sim.stack.node import StackNode


class EndLost(CutOffLeader):
    kind = "end_lost"

    def strike(self, shard: int, node: StackNode, random: Random) -> None:
        replica = node.part(shard).replica
        if replica is not None and replica.driver.raft.commit < replica.log.last_index:
            self.tools.damages.lose_end(node, shard, self.tools.power.can_do_without)

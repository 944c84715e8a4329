"""The fault `leader_ends_under_leases`: the leader of a shard dies when it has leased messages, or in the middle of a
write of such entries.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedTools
from chaos.sim.stack.directed.leader_ends import LeaderEnds
from chaos.sim.stack.node import StackNode


class LeaderEndsUnderLeases(LeaderEnds):
    kind = "leader_ends_under_leases"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> for how long its leader will be down after the next lease, in seconds.
        self._at_lease: dict[int, float] = {}
        tools.workload.shared.on_lease.append(lambda shard: self._kill_if_armed(shard, self._at_lease))

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        random, seconds = chance_of(event), event.for_ms / 1000
        if random.random() < 0.6:
            self._at_lease[shard] = seconds
        else:
            self._die_in_write(shard, random.randint(1, 6))
        return False  # counted when the leader dies

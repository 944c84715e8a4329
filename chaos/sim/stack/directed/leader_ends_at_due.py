"""The fault `leader_ends_at_due`: the leader of a shard dies when waiting messages are due, or in the middle of a turn,
when the first messages of the turn are delivered and the end of the turn may be missing.

In some faults the leader dies in the middle of a write of the turn's entries, so that only a part of them is on its
disk.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedTools
from chaos.sim.stack.directed.leader_ends import LeaderEnds
from chaos.sim.stack.node import StackNode

# The leader dies at most so long after the time at which messages are due, in seconds.
LATER_S = 0.3


class LeaderEndsAtDue(LeaderEnds):
    kind = "leader_ends_at_due"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> for how long its leader will be down, in seconds.
        self._armed: dict[int, float] = {}
        tools.workload.timed.on_delivery.append(self._delivered)

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        random, seconds = chance_of(event), event.for_ms / 1000
        if random.random() < 0.5:
            self._armed[shard] = seconds
        elif (due_s := self.tools.workload.timed.next_due_s(shard)) is not None:
            self.tools.loop.call_at(due_s + random.uniform(0, LATER_S), self._kill, shard, seconds)
            if random.random() < 0.5:
                self.tools.loop.call_at(due_s, self._die_in_write, shard, random.randint(1, 3))
        return False  # counted when the leader dies

    def _delivered(self, shard: int) -> None:
        self._kill_if_armed(shard, self._armed)

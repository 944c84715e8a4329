"""The fault `leader_ends_at_due`: the leader of a shard dies when waiting messages are due, or in the middle of a turn,
when the first messages of the turn are delivered and the end of the turn may be missing.

In some faults the leader dies in the middle of a write of the turn's entries, so that only a part of them is on its
disk.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of

# The leader dies at most so long after the time at which messages are due, in seconds.
LATER_S = 0.3


class LeaderEndsAtDue(DirectedFault):
    kind = "leader_ends_at_due"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> for how long its leader will be down, in seconds.
        self._armed: dict[int, float] = {}
        self._over = False
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

    def heal(self) -> None:
        self._over = True

    def _delivered(self, shard: int) -> None:
        if (seconds := self._armed.pop(shard, None)) is not None:
            self.tools.loop.call_later(0.0, self._kill, shard, seconds)

    def _die_in_write(self, shard: int, writes: int) -> None:
        """Let the leader die in the middle of one of its next writes to the log."""
        leader = self.tools.leader(shard)
        if not self._over and leader is not None and leader.alive and self.tools.power.may_kill(leader):
            leader.disk.die_in_write(writes, below=directory_of(shard) / "log")

    def _kill(self, shard: int, seconds: float) -> None:
        leader, power = self.tools.leader(shard), self.tools.power
        if self._over or leader is None or not leader.alive or not power.may_kill(leader):
            return
        power.kills(leader)
        leader.kill()
        self.tools.happened[self.kind] += 1
        self.tools.loop.call_later(seconds, leader.start_again)

"""The fault `leader_ends_under_leases`: the leader of a shard dies when it has leased messages, or in the middle of a
write of such entries.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of


class LeaderEndsUnderLeases(DirectedFault):
    kind = "leader_ends_under_leases"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> for how long its leader will be down after the next lease, in seconds.
        self._at_lease: dict[int, float] = {}
        self._over = False
        tools.workload.shared.on_lease = self._dies

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        random, seconds = chance_of(event), event.for_ms / 1000
        if random.random() < 0.6:
            self._at_lease[shard] = seconds
        else:
            leader = self.tools.leader(shard)
            if leader is not None and leader.alive and self.tools.power.may_kill(leader):
                leader.disk.die_in_write(random.randint(1, 6), below=directory_of(shard) / "log")
        return False  # counted when the leader dies

    def heal(self) -> None:
        self._over = True

    def _dies(self, shard: int) -> None:
        if (seconds := self._at_lease.pop(shard, None)) is not None:
            self.tools.loop.call_later(0.0, self._kill, shard, seconds)

    def _kill(self, shard: int, seconds: float) -> None:
        leader, power = self.tools.leader(shard), self.tools.power
        if self._over or leader is None or not leader.alive or not power.may_kill(leader):
            return
        power.kills(leader)
        leader.kill()
        self.tools.happened[self.kind] += 1
        self.tools.loop.call_later(seconds, leader.start_again)

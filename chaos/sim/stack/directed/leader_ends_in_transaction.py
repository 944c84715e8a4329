"""The fault `leader_ends_in_transaction`: the leader of a shard dies when a half batch is committed, when a transaction
is decided, or in the middle of a write of such entries.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedTools
from chaos.sim.stack.directed.leader_ends import LeaderEnds
from chaos.sim.stack.node import StackNode


class LeaderEndsInTransaction(LeaderEnds):
    kind = "leader_ends_in_transaction"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> for how long its leader will be down, in seconds, and after how many of the next events it dies.
        self._at_half: dict[int, float] = {}
        self._at_decision: dict[int, float] = {}
        truth = tools.workload.transactions
        truth.on_half = lambda shard: self._kill_if_armed(shard, self._at_half)
        truth.on_decision = lambda shard: self._kill_if_armed(shard, self._at_decision)

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        random, seconds = chance_of(event), event.for_ms / 1000
        match random.randrange(3):
            case 0:
                self._at_half[shard] = seconds
            case 1:
                self._at_decision[shard] = seconds
            case 2:
                self._die_in_write(shard, random.randint(1, 6))
        return False  # counted when the leader dies

"""The fault `pin_leader`: an operator pins a voter as the leader of a shard, or removes the pin."""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode


class PinFault(DirectedFault):
    kind = "pin_leader"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        self.tools.operator.pin_leader(shard, chance_of(event))
        return False  # counted when the cluster confirms it

"""The fault `two_learners`: an operator adds two nodes at once, and both stay learners until they are promoted."""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode


class TwoLearners(DirectedFault):
    kind = "two_learners"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        self.tools.operator.add_learners(chance_of(event))
        return False  # counted when a configuration with two learners is committed

"""The fault `clock_leap`: the clock of a node leaps by a day to 400 days, and an operator sets it right again.

Messages, timers and rights of the other nodes do not follow this clock. Only one node of a run has such a clock,
because a second one could make a majority of wrong clocks.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

DAY_MS = 86_400_000
MOST_DAYS = 400


class ClockLeap(DirectedFault):
    kind = "clock_leap"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._node: StackNode | None = None
        # By how much its clock has leapt, in ms.
        self._leapt = 0

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        node, random = self._node or node, chance_of(event)
        if not node.alive or self._leapt:
            return False
        self._node, self._leapt = node, random.choice((-1, 1)) * random.randint(DAY_MS, MOST_DAYS * DAY_MS)
        node.clock_ms += self._leapt
        self.tools.loop.call_later(event.for_ms / 1000, self.heal)
        return True

    def heal(self) -> None:
        """Set the clock right again."""
        if self._node is not None:
            self._node.clock_ms -= self._leapt
            self._leapt = 0

"""The fault `clock_leap`: the clock of a node leaps by a day to 400 days, and an operator sets it right again.

Messages, timers and rights of the other nodes do not follow this clock.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.leaping_clock import LeapingClock
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode


class StackClockLeap(DirectedFault):
    kind = "clock_leap"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._clock = LeapingClock(tools.loop, _move)

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        return self._clock.leap(event, node)

    def heal(self) -> None:
        self._clock.set_right()


def _move(node: StackNode, by_ms: int) -> None:
    node.clock_ms += by_ms

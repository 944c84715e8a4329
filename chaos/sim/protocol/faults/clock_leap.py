"""The fault `clock_leap`: the clock of a node leaps by a day to 400 days, and an operator sets it right again.

What the cluster promises is checked in all runs: see `chaos/sim/protocol/append_times.py`. If the clocks of a majority
are wrong, nothing is promised: the broker can forget the numbers of all producers. A leader goes on with a time that it
was told for ten minutes, so two nodes whose clocks leap one after the other could be a majority.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.leaping_clock import LeapingClock
from chaos.sim.engine.targets import target_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode


class ClockLeap(PromisedFault):
    kind = "clock_leap"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        self._clock = LeapingClock(tools.loop, _move)

    def fire(self, event: FaultEvent) -> bool:
        return self._clock.leap(event, target_of(event, self.tools.nodes))

    def heal(self) -> None:
        self._clock.set_right()


def _move(node: ProtocolNode, by_ms: int) -> None:
    node.clock_off_ms += by_ms

"""The fault `clock_leap`: the clock of a node leaps by a day to 400 days, and an operator sets it right again.

What the cluster promises is checked in all runs: see `chaos/sim/protocol/append_times.py`. If the clocks of a majority
are wrong, nothing is promised: the broker can forget the numbers of all producers.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, target_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode

DAY_MS = 86_400_000
MOST_DAYS = 400


class ClockLeap(PromisedFault):
    kind = "clock_leap"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        # The only node of the run whose clock leaps. A leader goes on with a time that it was told for ten minutes, so
        # a second node could make a majority of wrong clocks.
        self._node: ProtocolNode | None = None
        # By how much its clock has leapt, in ms.
        self._leapt = 0

    def fire(self, event: FaultEvent) -> bool:
        node, random = self._node or target_of(event, self.tools.nodes), chance_of(event)
        if not node.alive or self._leapt:
            return False
        self._node, self._leapt = node, random.choice((-1, 1)) * random.randint(DAY_MS, MOST_DAYS * DAY_MS)
        node.clock_off_ms += self._leapt
        self.tools.loop.call_later(event.for_ms / 1000, self.heal)
        return True

    def heal(self) -> None:
        """Set the clock right again."""
        if self._node is not None:
            self._node.clock_off_ms -= self._leapt
            self._leapt = 0

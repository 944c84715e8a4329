"""The fault `clocks_leap_under_leases`: while messages of a shared group are leased, the wall clocks of most nodes leap
forward by minutes. The leader dies, and the next leader dies too. Then an operator sets the clocks right, and the
leader dies once more.

The append times follow the clocks of a majority. So they are ahead of all leases, and stand still for minutes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedTools
from chaos.sim.stack.directed.leader_ends import LeaderEnds
from chaos.sim.stack.node import StackNode

# The clocks leap by so many ms. The load has leases of 2 to 20 s.
LEAST_MS, MOST_MS = 60_000, 600_000
# When leaders die, in seconds after the leap, and after the clocks are right again. They are down for DOWN_S.
AFTER_LEAP_S, AFTER_END_S, DOWN_S = (0.8, 3.0), 0.8, 0.5


class ClocksLeapUnderLeases(LeaderEnds):
    kind = "clocks_leap_under_leases"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Shard -> the fault that begins with its next lease.
        self._armed: dict[int, FaultEvent] = {}
        # The nodes whose clocks are wrong now, and by how much, in ms.
        self._nodes: Sequence[StackNode] = ()
        self._ahead_ms = 0
        tools.workload.shared.on_lease.append(self._leased)

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if not self._nodes:
            self._armed[shard] = event
        return False  # counted when a leader dies

    def heal(self) -> None:
        super().heal()
        self._set_right()

    def _leased(self, shard: int) -> None:
        event = self._armed.pop(shard, None)
        if event is None or self._nodes or self._over:
            return
        random, nodes = chance_of(event), self.tools.nodes
        self._nodes = random.sample(list(nodes), random.randint(len(nodes) // 2 + 1, len(nodes)))
        self._move(random.randint(LEAST_MS, MOST_MS))
        for after_s in AFTER_LEAP_S:
            self.tools.loop.call_later(after_s, self._kill, shard, DOWN_S)
        self.tools.loop.call_later(event.for_ms / 1000, self._set_right)
        self.tools.loop.call_later(event.for_ms / 1000 + AFTER_END_S, self._kill, shard, DOWN_S)

    def _set_right(self) -> None:
        self._move(-self._ahead_ms)
        self._nodes = ()

    def _move(self, by_ms: int) -> None:
        self._ahead_ms += by_ms
        for node in self._nodes:
            node.clock_ms += by_ms
        self.tools.workload.timed.watch()

"""The fault `clocks_go_back`: the clocks of most nodes are some seconds ahead, and an operator sets them right.

The time that a majority has passed goes back then, so messages that are sent afterwards can have delivery times between
this time and the cursor of their shard. They wait until the clocks have passed their times again.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

# The clocks are ahead by so many ms. The load has delivery times up to 20 s ahead.
LEAST_MS, MOST_MS = 200, 15_000


class ClocksGoBack(DirectedFault):
    kind = "clocks_go_back"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # The nodes whose clocks are wrong now, and by how much, in ms.
        self._nodes: Sequence[StackNode] = ()
        self._ahead_ms = 0

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if self._nodes:
            return False
        random, nodes = chance_of(event), self.tools.nodes
        self._nodes = random.sample(list(nodes), random.randint(len(nodes) // 2 + 1, len(nodes)))
        self._move(random.randint(LEAST_MS, MOST_MS))
        self.tools.loop.call_later(event.for_ms / 1000, self.heal)
        return True

    def heal(self) -> None:
        self._move(-self._ahead_ms)
        self._nodes = ()

    def _move(self, by_ms: int) -> None:
        self._ahead_ms += by_ms
        for node in self._nodes:
            node.clock_ms += by_ms
        self.tools.workload.timed.watch()

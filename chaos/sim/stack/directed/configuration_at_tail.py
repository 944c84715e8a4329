"""The fault `configuration_at_tail`: an operator changes members, and a node loses power at the moment at which the
last entry of its log is the new configuration.

The node may have counted the configuration, or not. It must not start with a configuration that it has promised to keep
and lost, in both flush modes.
"""

from __future__ import annotations

from random import Random

from chaos.sim.engine.disk_content import PAGE, SECTOR, Crash
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

WAIT_S, WAIT_STEP_S = 10.0, 0.002
DOWN_S = (0.1, 3.0)


class ConfigurationAtTail(DirectedFault):
    kind = "configuration_at_tail"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._waits = False

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if self._waits:
            return False
        random = chance_of(event)
        self.tools.operator.change(shard, random)
        self._waits = True
        known = {each.node: self._configuration_of(each, shard) for each in self.tools.nodes}
        self._look(shard, known, random, self.tools.loop.time() + WAIT_S)
        return False  # counted when the power is cut

    def _configuration_of(self, node: StackNode, shard: int) -> int:
        raft = node.part(shard).raft
        return raft.configuration_index if raft is not None else 0

    def _look(self, shard: int, known: dict[int, int], random: Random, deadline: float) -> None:
        if not self._waits or self.tools.loop.time() > deadline:
            self._waits = False
            return
        for node in self.tools.nodes:
            part = node.part(shard)
            if part.raft is None or part.log is None or part.raft.configuration_index <= known.get(node.node, 0):
                continue
            if part.log.whole.last_index == part.raft.configuration_index and self._cut(node, random):
                self._waits = False
                return
        self.tools.loop.call_later(WAIT_STEP_S, self._look, shard, known, random, deadline)

    def _cut(self, node: StackNode, random: Random) -> bool:
        unit, keeps = random.choice((SECTOR, PAGE)), random.choice((0.0, 0.5))
        crash = Crash(random, unit, keeps=keeps, ordered_names=True)
        done = self.tools.power.cut([node], random.uniform(*DOWN_S), crash)
        self.tools.happened[self.kind] += done
        return done

    def heal(self) -> None:
        self._waits = False

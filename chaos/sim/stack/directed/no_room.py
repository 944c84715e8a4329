"""The fault `no_room`: the disk of a node is nearly full, so the node refuses the sends of clients.

The node still takes the entries of its leader. Leadership goes to a node with room, and after the fault all sends have
a result. A disk that takes nothing at all is the fault `full_disk`.
"""

from __future__ import annotations

from chaos.sim.engine.disk import CAPACITY
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

# Less than the part that `disk_refuse_ratio` leaves, and more than a run writes.
ROOM_BYTES = CAPACITY // 20


class StackNoRoom(DirectedFault):
    kind = "no_room"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._full: list[StackNode] = []

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if not node.alive or node.disk.room is not None:
            return False
        node.disk.room = ROOM_BYTES
        self._full.append(node)
        self.tools.loop.call_later(event.for_ms / 1000, self._end, node)
        return True

    def _end(self, node: StackNode) -> None:
        if node in self._full:
            self._full.remove(node)
            node.disk.room = None

    def heal(self) -> None:
        for node in list(self._full):
            self._end(node)

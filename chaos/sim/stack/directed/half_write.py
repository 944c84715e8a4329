"""The fault `half_write`: the disk has no space any more in the middle of a write of entries, so a part of the entries
is in the file.

The log must erase this part: what is behind its last entry is blank.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of


class HalfWrite(DirectedFault):
    kind = "half_write"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        # Staged entries are written when they are flushed, and a failed flush is another fault.
        if not node.alive or self.tools.options.staged or node.part(shard).replica is None:
            return False
        node.disk.write_half(directory_of(shard) / "log", lambda: self.tools.happened.update([self.kind]))
        return False  # counted when a write has failed

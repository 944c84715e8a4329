"""The base class of faults in which the leader of a shard dies at a moment that the load tells, or in the middle of a
write of the entries of that moment.
"""

from __future__ import annotations

from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of


class LeaderEnds(DirectedFault):
    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._over = False

    def heal(self) -> None:
        self._over = True

    def _kill_if_armed(self, shard: int, armed: dict[int, float]) -> None:
        """Kill the leader soon if `armed` has the shard: for how long the leader will be down, in seconds."""
        if (seconds := armed.pop(shard, None)) is not None:
            self.tools.loop.call_later(0.0, self._kill, shard, seconds)

    def _kill(self, shard: int, seconds: float) -> None:
        leader = self._mortal(shard)
        if leader is None:
            return
        self.tools.power.kills(leader)
        leader.kill()
        self.tools.happened[self.kind] += 1
        self.tools.loop.call_later(seconds, leader.start_again)

    def _die_in_write(self, shard: int, writes: int) -> None:
        """Let the leader die in the middle of one of its next writes to the log."""
        if (leader := self._mortal(shard)) is not None:
            leader.disk.die_in_write(writes, below=directory_of(shard) / "log")

    def _mortal(self, shard: int) -> StackNode | None:
        """Return the leader of the shard, and None if the run is over or the leader must not die now."""
        leader = self.tools.leader(shard)
        if self._over or leader is None or not leader.alive or not self.tools.power.may_kill(leader):
            return None
        return leader

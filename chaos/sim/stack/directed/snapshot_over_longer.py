"""The fault `snapshot_over_longer`: a leader is cut off with clients when the segment of its log is nearly full. The
other nodes go on, and move their log start into the entries that only the old leader has. Then the cut ends.

    old leader    | committed | entries that no other node has ........... |
    other nodes   | removed by the new log start ....... | snapshot | entries ...

The old leader gets a snapshot although its log is longer than the snapshot's index. Nothing of its entries may stay.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import links_of
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode

# How long to wait until the segment is nearly full, and how long the leader is cut off at most, in s.
WAIT_S, CUT_S, LOOK_S, TRIM_LOOK_S = 20.0, 25.0, 0.02, 0.5
# The segment is nearly full if it has this much room, in bytes: some entries, and fewer than a cut-off leader appends.
ROOM_BYTES = range(100, 2_500)


class SnapshotOverLonger(DirectedFault):
    kind = "snapshot_over_longer"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._waits = False
        # The links that are cut.
        self._cut: list[tuple[int, int]] = []

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if not self._waits and not self._cut:
            self._waits = True
            self._look_at_segment(event, shard, self.tools.loop.time() + WAIT_S)
        return False  # counted when the cut ends, and the old leader needs a snapshot

    def _look_at_segment(self, event: FaultEvent, shard: int, deadline: float) -> None:
        if not self._waits or self.tools.loop.time() > deadline:
            self._waits = False
            return
        leader = self.tools.leader(shard)
        replica = leader.part(shard).replica if leader is not None else None
        if leader is not None and replica is not None and replica.log.left_in_segment in ROOM_BYTES:
            self._waits = False
            if self.tools.power.may_miss(leader):
                self._cut_off(event, shard, leader)
            return
        self.tools.loop.call_later(LOOK_S, self._look_at_segment, event, shard, deadline)

    def _cut_off(self, event: FaultEvent, shard: int, leader: StackNode) -> None:
        self._cut = links_of(leader.node, self.tools.nodes)
        self.tools.network.cut_links(self._cut)
        self._look_at_start(event, shard, leader, leader.process, self.tools.loop.time() + CUT_S)

    def _look_at_start(self, event: FaultEvent, shard: int, old: StackNode, process: object, deadline: float) -> None:
        if not self._cut:
            return  # healed
        replica, successor = old.part(shard).replica, self.tools.leader(shard)
        if self.tools.loop.time() > deadline or old.process is not process or replica is None:
            self.heal()
            return
        newer = successor.part(shard).replica if successor is not None and successor is not old else None
        if newer is not None and newer.log.first_index > replica.driver.raft.commit + 1:
            self.tools.happened[self.kind] += newer.log.first_index <= replica.log.last_index
            self.heal()
            return
        if newer is not None:
            self.tools.operator.move_log_start(shard, chance_of(event))
        self.tools.loop.call_later(TRIM_LOOK_S, self._look_at_start, event, shard, old, process, deadline)

    def heal(self) -> None:
        self._waits = False
        self.tools.network.mend_links(self._cut)
        self._cut = []

"""The fault `lying_flush`: a disk reports a flush as done and has not written it, and then its node loses power.

The node has lost entries that it acknowledged, and does not know that. This is beyond Raft's fault model, as an older
copy of a disk is, so the promises of `put_back_disk` count. Unlike there, the node keeps its votes.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, leader_of, target_of
from chaos.sim.protocol.faults.promised_fault import FaultTools
from chaos.sim.protocol.faults.put_back_disk import PutBackDisk
from chaos.sim.protocol.node import DiskCopy, ProtocolNode


class LyingFlush(PutBackDisk):
    kind = "lying_flush"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        # Node -> what its disk really has. It lies about the next flush.
        self._lies: dict[int, DiskCopy] = {}
        # For how long the leader is away after that, in ms, so that the node votes with what it has. 0: it stays.
        self._away_ms = 0

    def fire(self, event: FaultEvent) -> bool:
        node = target_of(event, self.tools.nodes)
        if not self.tools.options.sync or not node.alive or node.stranger or self._lies:
            return False
        self._lies[node.node], self._away_ms = node.copied_disk(), chance_of(event).choice((0, 2_000, 8_000))
        return False  # counted when the node has lost what the disk lied about

    def heal(self) -> None:
        self._lies.clear()

    def touched(self, node: ProtocolNode) -> None:
        super().touched(node)
        copy = self._lies.get(node.node)
        if copy is None:
            return
        if copy.incarnation != node.incarnation or node.log.entries[: len(copy.entries)] != list(copy.entries):
            del self._lies[node.node]  # the node has another disk, or its log was cut, so the flush did not lie
        elif node.log.flushed > len(copy.entries):
            del self._lies[node.node]
            self.tools.loop.call_soon(self._lose, node, copy)

    def _lose(self, node: ProtocolNode, copy: DiskCopy) -> None:
        if node.incarnation == copy.incarnation and not node.stranger:
            self._put_back([(node, copy._replace(vote=node.votes.saved, suspect=node.suspect))], 0)
            self.tools.happened(self.kind)
            leader = leader_of(self.tools.nodes)
            if self._away_ms and leader is not None:
                self.tools.kill(leader, self._away_ms)

"""The fault `no_room`: the disk of a node is nearly full, so the node takes no new data of clients.

    hands over       a leader without room hands over to a voter with room that keeps up
    stands last      a voter without room stands for election after the other voters
    (in all runs)    after the fault, all sends have a result

The node still takes the entries of its leader. A disk that takes nothing at all is the fault `full_disk`.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import target_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode
from raft.core import Append, AppendResponse, Heartbeat, HeartbeatResponse, RaftMessage, Role, VoteRequest
from store import Readable

# A leader without room begins a handover within this many election timeouts: it waits two after its election and after
# a handover that failed, which takes one.
HANDOVER_TIMEOUTS = 5
# A voter without room lets this many election timeouts pass, beside its own.
STANDS_AFTER_TIMEOUTS = 5


class NoRoom(PromisedFault):
    kind = "no_room"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        self._ticks_of_timeout = tools.options.election_ticks
        # Node -> (its process, ticks since it last heard a leader).
        self._silent: dict[int, tuple[int, int]] = {}
        # Node -> its role after its last event.
        self._roles: dict[int, Role] = {}
        # Leader -> (its process and term, voter -> ticks since when leadership could be handed to it).
        self._could: dict[int, tuple[tuple[int, int], dict[int, int]]] = {}
        # Leader -> (term, voter -> (index that it holds, the leader's ticks since it was heard)).
        self._heard: dict[int, tuple[int, dict[int, list[int]]]] = {}

    def fire(self, event: FaultEvent) -> bool:
        node = target_of(event, self.tools.nodes)
        if not node.alive or not node.has_room:
            return False
        node.room_changed(False)
        self.tools.loop.call_later(event.for_ms / 1000, node.room_changed, True)
        return True

    def heal(self) -> None:
        for node in self.tools.nodes:
            node.room_changed(True)

    # -- stands last

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        if not isinstance(message, VoteRequest) or message.transfer or node.has_room:
            return
        if self._roles.get(node.node) is not Role.FOLLOWER or node.driver.raft.role is Role.FOLLOWER:
            return  # it stood before, or it asked when it stood, and the request waited until its vote was saved
        life, ticks = self._silent.get(node.node, (0, 0))
        ticks += 1  # a tick is counted after what the node does in it
        several = len(node.driver.raft.configuration.voters) > 1
        if several and life == node.life and ticks < STANDS_AFTER_TIMEOUTS * self._ticks_of_timeout:
            self.tools.invariants.fail(
                "without room, others first", f"node {node.node} stands for election after {ticks} ticks"
            )

    def received_range(self, node: ProtocolNode, append: Append, entries: Readable) -> None:
        if node.driver.failure is None:  # otherwise the driver may drop it
            self._hears(node, append)

    def touched(self, node: ProtocolNode) -> None:
        self._roles[node.node] = node.driver.raft.role

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        match message:
            case Heartbeat() | Append():
                self._hears(node, message)
            case AppendResponse(rejected=False) if message.contradicted is None:
                self._answers(node, message, message.match)
            case HeartbeatResponse() | AppendResponse():
                self._answers(node, message, 0)

    def _hears(self, node: ProtocolNode, message: RaftMessage) -> None:
        if message.term >= node.driver.raft.term and message.sender not in node.driver.raft.divergences:
            self._silent[node.node] = (node.life, 0)

    # -- hands over

    def _answers(self, node: ProtocolNode, message: RaftMessage, match: int) -> None:
        if message.term != node.driver.raft.term:
            return
        term, heard = self._heard.get(node.node, (0, {}))
        if term != message.term:
            heard = {}
        held = heard.get(message.sender, [0, 0])[0]
        heard[message.sender] = [max(held, match), 0]
        self._heard[node.node] = (message.term, heard)

    def ticked(self, node: ProtocolNode) -> None:
        life, ticks = self._silent.get(node.node, (0, 0))
        self._silent[node.node] = (node.life, ticks + 1 if life == node.life else 1)
        raft = node.driver.raft
        if raft.role is not Role.LEADER or node.has_room or raft.transferring_to:
            self._could.pop(node.node, None)
            return
        leadership, before = self._could.get(node.node, ((0, 0), {}))
        if leadership != (node.life, raft.term):
            before = {}
        able = [voter for voter in raft.configuration.voters if voter != node.node and self._can_lead(node, voter)]
        could = {voter: before.get(voter, 0) + 1 for voter in able}
        self._could[node.node] = ((node.life, raft.term), could)
        if able and max(could.values()) > HANDOVER_TIMEOUTS * self._ticks_of_timeout:
            self.tools.invariants.fail(
                "without room, a leader hands over",
                f"node {node.node} leads term {raft.term} without room, and begins no handover; able are {could}",
            )
        _, heard = self._heard.get(node.node, (0, {}))
        for each in heard.values():
            each[1] += 1

    def _can_lead(self, leader: ProtocolNode, voter: int) -> bool:
        """Return True if the voter has room, is heard by the leader, and holds what is committed."""
        node, raft = self.tools.node(voter), leader.driver.raft
        term, heard = self._heard.get(leader.node, (0, {}))
        if not node.alive or node.paused or not node.has_room or node.suspect or node.log.full or node.stranger:
            return False
        if term != raft.term or voter not in heard or node.log.failure is not None or node.driver.failure is not None:
            return False
        held, ticks = heard[voter]
        streams = raft.progress[voter].mode.name == "REPLICATE"  # not after a stream broke
        sound = streams and voter not in raft.divergences and node.driver.raft.term == raft.term
        return sound and held >= raft.commit and ticks < self._ticks_of_timeout - 1

"""The clients of the protocol world: they find the leader, and remember it."""

from __future__ import annotations

from random import Random

from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.protocol.client import TRY_AGAIN_S, SimRoute, SimSequencer
from chaos.sim.protocol.machine import Reply, SimAnswer, SimBatch, SimVerdict
from chaos.sim.stack.deliveries import Deliveries, Stream

PUMP_S = 0.5
LEADER, FOLLOWER, SILENT = 1, 2, 3
NODES = 9
"""Many, so that guessing is no way to find a leader: those that are not named do not answer."""


class Cluster:
    """Implements `Service`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[int] = []
        self._ends: dict[Stream, int] = {}

    def time(self) -> float:
        return self.now

    def produce(self, client: int, node: int, batch: SimBatch, reply: Reply) -> None:
        self.asked.append(node)
        if node == FOLLOWER:
            reply(SimAnswer(SimVerdict.NOT_LEADER, leader=LEADER))
        elif node == LEADER:
            offset = self._ends.get(batch.stream, 0)
            self._ends[batch.stream] = offset + batch.messages
            reply(SimAnswer(SimVerdict.DONE, offset))

    def read(self, client: int, node: int, floor: int, reply: Reply) -> None:
        raise AssertionError("nobody reads")


class Clients:
    """Two sequencers of one producer that share a route."""

    def __init__(self, begins_with: int) -> None:
        self.cluster = Cluster()
        self.deliveries = Deliveries(lambda invariant, what: None)
        self.route = SimRoute(NODES, Random(1))
        self.route.leader = begins_with
        options = draw(1, Wishes())
        self.one, self.other = (
            SimSequencer(100, Stream(100, 1, queue), options, self.route, Random(queue)) for queue in range(2)
        )

    def send(self, sequencer: SimSequencer) -> None:
        sequencer.send(1)
        sequencer.pump(self.cluster, self.deliveries)

    def pump(self, seconds: float) -> None:
        for _ in range(round(seconds / PUMP_S)):
            self.cluster.now += PUMP_S
            for sequencer in (self.one, self.other):
                sequencer.pump(self.cluster, self.deliveries)


def test_who_is_told_who_leads_asks_there_next() -> None:
    clients = Clients(FOLLOWER)
    clients.send(clients.one)
    clients.pump(PUMP_S)
    assert clients.cluster.asked == [FOLLOWER, LEADER]
    assert clients.one.idle


def test_silence_of_one_node_is_no_reason_to_doubt_another() -> None:
    """The other sequencer has found the new leader meanwhile. The answer to this sequencer never arrives."""
    clients = Clients(SILENT)
    clients.send(clients.one)
    clients.route.leader = LEADER
    clients.send(clients.other)
    clients.pump(TRY_AGAIN_S)
    assert clients.cluster.asked == [SILENT, LEADER, LEADER]
    assert clients.one.idle
    assert clients.route.leader == LEADER


def test_who_does_not_answer_is_left_for_another() -> None:
    clients = Clients(SILENT)
    clients.send(clients.one)
    clients.pump(60)
    assert set(clients.cluster.asked) > {SILENT, LEADER}
    assert clients.one.idle

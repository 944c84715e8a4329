"""Runs the clients of the protocol world, and implements the service through which the clients reach the nodes.

The workload is drawn from the seed. The producers send bursts of messages, a reader makes linearizable reads, and a
consumer reads all queues. Requests and responses are sent over the simulated network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.ambush import Ambush, CriticalMoment
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.targets import leader_of
from chaos.sim.invariants import Invariants
from chaos.sim.protocol.client import TOPIC, SimConsumer, SimProducer, SimReader
from chaos.sim.protocol.machine import Reply, SimAnswer, SimBatch, SimVerdict
from chaos.sim.protocol.node import ProtocolNode
from chaos.sim.stack.deliveries import Deliveries, MessageSpan
from raft.core import NotLeader
from raft.core.progress import MAX_IN_FLIGHT_MESSAGES

FIRST_CLIENT = 100
# Mean number of messages of one burst.
SENDS_AT_ONCE = 6

# Limit on messages per second in a cluster that does not catch up. The load itself needs only some dozens.
MOST_MESSAGES_A_SECOND = 10_000
# Additional messages allowed for each entry that a lagging log has received. A new member takes the whole log within a
# second, and when messages overtake each other, most messages in flight are refused and sent again.
MOST_FOR_AN_ENTRY = MAX_IN_FLIGHT_MESSAGES


class ProtocolClients:
    """Holds all clients of one run of the protocol world, and connects the clients to the nodes. Implements
    `chaos.sim.protocol.client.Service`."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        options: Options,
        nodes: Sequence[ProtocolNode],
        invariants: Invariants,
        ambush: Ambush,
    ) -> None:
        self.deliveries = Deliveries(invariants.fail)
        self._loop = loop
        self._network = network
        self._options = options
        self._nodes = nodes
        self._invariants = invariants
        self._ambush = ambush
        self._random = options.chance("workload")
        self._producers = [SimProducer(FIRST_CLIENT + i, options) for i in range(options.producers)]
        self._reader = SimReader(FIRST_CLIENT + 50, options)
        self._consumer = SimConsumer(options.queues)
        # Acknowledged messages that were lost, in a run that accepts loss.
        self._lost = 0
        self._sending = False

    def start(self) -> None:
        self._sending = True
        self._make_topic()
        self._send_some()
        self._read_one()
        self._consume_some()
        self._pump()
        self._watch_traffic(0, 0)

    def end(self) -> None:
        """Stop sending new messages and reads. Batches without a response are still sent again."""
        self._sending = False

    def _watch_traffic(self, sent_before: int, caught_up_before: int) -> None:
        """Check that the nodes send a limited number of messages per second, and do not answer each other without
        end. For each entry that a lagging node receives, more messages are allowed."""
        sent, caught_up = self._network.counts["sent"], self._invariants.caught_up
        messages, entries = sent - sent_before, caught_up - caught_up_before
        if messages > MOST_MESSAGES_A_SECOND + MOST_FOR_AN_ENTRY * entries:
            self._invariants.fail("bounded traffic", f"{messages:,} messages within one second")
        self._loop.call_later(1.0, self._watch_traffic, sent, caught_up)

    def _make_topic(self) -> None:
        """Ask every node to create the topic until the topic exists. If an accepted loss removes the topic, ask the
        nodes again."""
        queues, leader = self._options.queues, leader_of(self._nodes)
        if leader is None or not len(leader.machine.state.topics):
            for node in range(1, self._options.nodes + 1):
                self._request(FIRST_CLIENT, node, lambda at: at.machine.create_topic("t", queues, _ignore_answer))
        self._loop.call_later(0.5, self._make_topic)

    def _send_some(self) -> None:
        if not self._sending:
            return
        random, options = self._random, self._options
        messages = random.randint(1, 2 * SENDS_AT_ONCE - 1)
        random.choice(self._producers).send(messages, self, self.deliveries)
        self._loop.call_later(random.expovariate(1.0) * SENDS_AT_ONCE / options.sends_per_second, self._send_some)

    def _pump(self) -> None:
        """Let all producers send new batches, and send unanswered batches again."""
        for producer in self._producers:
            producer.pump(self, self.deliveries)
        self._loop.call_later(0.5, self._pump)

    def _read_one(self) -> None:
        if self._sending:
            self._reader.read(self, self._invariants.newest_commit)
            self._loop.call_later(self._random.expovariate(self._options.reads_per_second), self._read_one)

    def _consume_some(self) -> None:
        node, queue = self._random.choice(self._nodes), self._random.randrange(self._options.queues)
        if node.alive and not node.paused:
            self._consumer.take(queue, node.machine.queues.get((1, queue), []), self.deliveries)
        self._loop.call_later(1.0, self._consume_some)

    # -- the service for clients

    def time(self) -> float:
        return self._loop.time()

    def produce(self, client: int, node: int, batch: SimBatch, reply: Reply) -> None:
        back = self._way_back(client, node, reply)

        def answer(answer: SimAnswer) -> None:
            back(answer)
            if answer.verdict is SimVerdict.DONE:
                self._ambush.comes(CriticalMoment.ACKNOWLEDGED, self._nodes[node - 1])

        self._request(client, node, lambda at: at.machine.produce(batch, answer))

    def read(self, client: int, node: int, floor: int, reply: Reply) -> None:
        back = self._way_back(client, node, reply)

        def ask(at: ProtocolNode) -> None:
            def answer(confirmed: bool) -> None:
                if confirmed:
                    self.deliveries.read(floor, at.driver.applied)
                back(SimAnswer(SimVerdict.DONE if confirmed else SimVerdict.NOT_LEADER))

            try:
                at.driver.read_index(answer)
            except NotLeader as refusal:
                back(SimAnswer(SimVerdict.NOT_LEADER, leader=refusal.leader))

        self._request(client, node, ask)

    def _request(self, client: int, node: int, action: Callable[[ProtocolNode], None]) -> None:
        at = self._nodes[node - 1]
        self._network.send(client, node, lambda: at.now(lambda: action(at)))

    def _way_back(self, client: int, node: int, reply: Reply) -> Reply:
        return lambda answer: self._network.send(node, client, lambda: reply(answer))

    # -- called by the world

    def read_everywhere(self) -> None:
        """Make a linearizable read at every node, because an old leader can still believe that it leads."""
        floor = self._invariants.newest_commit
        for node in range(1, self._options.nodes + 1):
            self.read(FIRST_CLIENT, node, floor, _ignore_answer)

    def forgive(self, keep: Callable[[MessageSpan], bool]) -> None:
        """Accept the loss of all committed batches for which the function `keep` returns False. After the loss, all
        producers continue with new producer ids."""
        self._lost += self.deliveries.forgive(keep)
        self._consumer.forget(self.deliveries.ends(TOPIC))
        for producer in self._producers:
            producer.begin_anew()

    def unsettled(self) -> list[str]:
        """Return a phrase for each producer that still waits for the results of messages."""
        return [f"client {each.client} has open sends" for each in self._producers if not each.idle]

    def figures(self) -> Mapping[str, int]:
        """The total numbers of messages, reads and similar events of all clients."""
        sequencers = [sequencer for producer in self._producers for sequencer in producer.sequencers]
        return {
            "sent": sum(sequencer.sent for sequencer in sequencers),
            "acknowledged": self.deliveries.acknowledged,
            "lost": self._lost,
            "unknown": sum(sequencer.unknown for sequencer in sequencers),
            "committed": self.deliveries.committed,
            "reads": self._reader.answered,
            "consumed": self._consumer.consumed,
        }


def _ignore_answer(answer: SimAnswer) -> None:
    """Ignore the response of a read."""

"""The protocol world: real core, real driver and real replicated state, on simulated logs. Fast, for many seeds.

It puts the parts together, fires what a schedule says, drives clients, and tells the invariants of everything. What
it leaves out (files, bytes of batches, the real clients) is in the stack world.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import xxhash

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.ambush import Moment
from chaos.sim.engine.faults import RATES, FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import NetworkFaults
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.invariants import Invariants
from chaos.sim.protocol.client import TOPIC, Consumer, Producer, Reader
from chaos.sim.protocol.disk_threads import SavedVote
from chaos.sim.protocol.log import SimLog
from chaos.sim.protocol.machine import Answer, Batch, Reply, Verdict, span_of
from chaos.sim.protocol.node import ProtocolNode
from chaos.sim.protocol.node_faults import NodeFaults
from chaos.sim.stack.deliveries import Deliveries, Span
from chaos.sim.stack.promises import Promises
from chaos.sim.world import SimNodeLog, Violation
from raft.core import Message, NotLeader
from raft.core.progress import MAX_IN_FLIGHT_MESSAGES
from raft.errors import LossAcceptedError
from store import EntryKind, StoreError

FIRST_CLIENT = 100
READS_AFTER_ELECTION_S = (0.05, 0.2, 0.5, 1.0)
SENDS_AT_ONCE = 6
"""On average: who sends much sends in bursts."""

MOST_MESSAGES_A_SECOND = 10_000
"""Of a cluster that has some dozens of messages to carry, in small pieces."""
MOST_FOR_AN_ENTRY = MAX_IN_FLIGHT_MESSAGES
"""For each entry that somebody who was behind has made good there may be so many more: who joins takes the whole log
within a second, and where messages overtake each other most of what is in flight to it is refused, and sent again."""

_EVENT = struct.Struct("<dIQQQI")


class ProtocolWorld:
    """Implements `World`, and is the `Watch` of its nodes and the `Service` of its clients."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.happened: Counter[str] = Counter()
        self.loop = SimLoop()
        self.network = Network(self.loop, options.chance("network"), options.conditions)
        self.invariants = Invariants(self._now_ms)
        self.invariants.on_commit = self._committed
        self.promises = Promises(self.invariants, options)
        self.deliveries = Deliveries(self.invariants.fail)
        self._history = xxhash.xxh3_64()
        self._random = options.chance("workload")
        self._nodes = [
            ProtocolNode(node, self.loop, self.network, options, self, self._node) for node in self._numbers()
        ]
        self._network_faults = NetworkFaults(self.loop, self.network)
        self._node_faults = NodeFaults(self.loop, options, self._nodes, self._count)
        self._producers = [Producer(FIRST_CLIENT + i, options) for i in range(options.producers)]
        self._reader = Reader(FIRST_CLIENT + 50, options)
        self._consumer = Consumer(options.queues)
        self._spans: list[tuple[int, Span]] = []
        """What is committed, each with its index."""
        self._lost = 0
        """Messages that were acknowledged and are gone, where the run accepts that."""
        self._sending = False
        for node in self._nodes:
            node.start()

    def nodes(self) -> Sequence[ProtocolNode]:
        return self._nodes

    def violations(self) -> Sequence[Violation]:
        return self.invariants.violations

    def history(self) -> int:
        """Every change of any node, with its time, and how many events and messages there were in all."""
        self._history.update(f"{self.loop.events} {sorted(self.network.counts.items())}".encode())
        return self._history.intdigest()

    def figures(self) -> Mapping[str, int]:
        sequencers = [sequencer for producer in self._producers for sequencer in producer.sequencers]
        return {
            "sent": sum(sequencer.sent for sequencer in sequencers),
            "acknowledged": self.deliveries.acknowledged,
            "lost": self._lost,
            "unknown": sum(sequencer.unknown for sequencer in sequencers),
            "committed": self.deliveries.committed,
            "entries": self.invariants.newest_commit,
            "leaders": len(self.invariants.leaders),
            "reads": self._reader.answered,
            "consumed": self._consumer.consumed,
            "events": self.loop.events,
        }

    def close(self) -> None:
        self.loop.close()

    # -- faults

    def fire(self, event: FaultEvent) -> None:
        network, nodes = self._network_faults, self._node_faults
        if self._isolate_leader(event) or network.fire(event, self._nodes) or nodes.fire(event):
            self.happened[event.kind] += 1
        self._history.update(str(event).encode())

    def _isolate_leader(self, event: FaultEvent) -> bool:
        """Clients reach a leader that does not know what the others have elected; with a slow clock it is later still
        to find out."""
        leader = leader_of(self._nodes)
        if event.kind != "isolate_with_client" or leader is None:
            return False
        self._network_faults.isolate(leader.node, self._nodes, event)
        return self._node_faults.skew(leader, chance_of(event).choice((1.0, 0.9, 0.7)), event)

    def _count(self, kind: str) -> None:
        self.happened[kind] += 1

    def stop_faults(self) -> None:
        for name in RATES:
            self.happened[name] += self.network.counts[name]
        self.network.calm()
        self._network_faults.heal()
        self._node_faults.heal()
        self.loop.call_later(0.05, self._all_unreachable)

    def _all_unreachable(self) -> None:
        """Streams that broke while nobody looked are noticed in the end."""
        for node in self._nodes:
            for other in self._nodes:
                if other is not node:
                    node.unreachable(other.node)

    # -- the workload

    def start_workload(self) -> None:
        self._sending = True
        self._make_topic()
        self._send_some()
        self._read_one()
        self._consume_some()
        self._pump()
        self._watch_traffic(0, 0)

    def _watch_traffic(self, sent_before: int, caught_up_before: int) -> None:
        """Nodes that answer each other without end do no harm to safety, and are no good either. To catch up has an
        end."""
        sent, caught_up = self.network.counts["sent"], self.invariants.caught_up
        messages, entries = sent - sent_before, caught_up - caught_up_before
        if messages > MOST_MESSAGES_A_SECOND + MOST_FOR_AN_ENTRY * entries:
            self.invariants.fail("bounded traffic", f"{messages:,} messages within a second")
        self.loop.call_later(1.0, self._watch_traffic, sent, caught_up)

    def _make_topic(self) -> None:
        """Asked of everyone, until it is there; and again, should it be lost."""
        queues, leader = self.options.queues, leader_of(self._nodes)
        if leader is None or not len(leader.machine.state.topics):
            for node in self._numbers():
                self._request(FIRST_CLIENT, node, lambda at: at.machine.create_topic("t", queues, _nobody))
        self.loop.call_later(0.5, self._make_topic)

    def _send_some(self) -> None:
        if not self._sending:
            return
        random, options = self._random, self.options
        messages = random.randint(1, 2 * SENDS_AT_ONCE - 1)
        random.choice(self._producers).send(messages, self, self.deliveries)
        self.loop.call_later(random.expovariate(1.0) * SENDS_AT_ONCE / options.sends_per_second, self._send_some)

    def _pump(self) -> None:
        """What was not answered is sent again."""
        for producer in self._producers:
            producer.pump(self, self.deliveries)
        self.loop.call_later(0.5, self._pump)

    def _read_one(self) -> None:
        if self._sending:
            self._reader.read(self, self.invariants.newest_commit)
            self.loop.call_later(self._random.expovariate(self.options.reads_per_second), self._read_one)

    def _consume_some(self) -> None:
        node, queue = self._random.choice(self._nodes), self._random.randrange(self.options.queues)
        if node.alive and not node.paused:
            self._consumer.take(queue, node.machine.queues.get((1, queue), []), self.deliveries)
        self.loop.call_later(1.0, self._consume_some)

    # -- the service that clients see

    def time(self) -> float:
        return self.loop.time()

    def produce(self, client: int, node: int, batch: Batch, reply: Reply) -> None:
        back = self._way_back(client, node, reply)

        def answer(answer: Answer) -> None:
            back(answer)
            if answer.verdict is Verdict.DONE:
                self._node_faults.ambush.comes(Moment.ACKNOWLEDGED, self._node(node))

        self._request(client, node, lambda at: at.machine.produce(batch, answer))

    def read(self, client: int, node: int, floor: int, reply: Reply) -> None:
        back = self._way_back(client, node, reply)

        def ask(at: ProtocolNode) -> None:
            def answer(confirmed: bool) -> None:
                if confirmed:
                    self.deliveries.read(floor, at.driver.applied)
                back(Answer(Verdict.DONE if confirmed else Verdict.NOT_LEADER))

            try:
                at.driver.read_index(answer)
            except NotLeader as refusal:
                back(Answer(Verdict.NOT_LEADER, leader=refusal.leader))

        self._request(client, node, ask)

    def _request(self, client: int, node: int, action: Callable[[ProtocolNode], None]) -> None:
        at = self._node(node)
        self.network.send(client, node, lambda: at.now(lambda: action(at)))

    def _way_back(self, client: int, node: int, reply: Reply) -> Reply:
        return lambda answer: self.network.send(node, client, lambda: reply(answer))

    # -- what nodes tell

    def sends(self, node: ProtocolNode, message: Message) -> None:
        self.promises.sends(node, message)

    def receives(self, node: ProtocolNode, message: Message) -> None:
        self.promises.receives(node, message)

    def ticked(self, node: ProtocolNode) -> None:
        self.promises.ticks(node)

    def touched(self, node: ProtocolNode) -> None:
        self.promises.touched(node)
        leaders = len(self.invariants.leaders)
        if self.invariants.check(node):
            if len(self.invariants.leaders) != leaders:
                self._elected(node)
            raft, log = node.driver.raft, node.log
            last, chain = log.last_index, log.entries[-1].header.chain if log.entries else 0
            self._history.update(_EVENT.pack(self.loop.time(), node.node, raft.term, raft.commit, last, chain))

    def _elected(self, node: ProtocolNode) -> None:
        self._node_faults.ambush.comes(Moment.ELECTED, node)
        for delay_s in READS_AFTER_ELECTION_S:
            self.loop.call_later(delay_s, self._read_everywhere)

    def _read_everywhere(self) -> None:
        """Somebody may think that it leads still."""
        floor = self.invariants.newest_commit
        for node in self._numbers():
            self.read(FIRST_CLIENT, node, floor, _nobody)

    def broken(self, node: ProtocolNode, error: Exception) -> None:
        self.invariants.fail("no exception", f"node {node.node}: {type(error).__name__}: {error}")
        self.loop.errors.append(error)

    def applied(self, node: ProtocolNode, index: int, digest: Callable[[], int]) -> None:
        self.invariants.applied(node.node, index, node.driver.raft.commit, digest)

    def vote_saved(self, node: ProtocolNode, vote: SavedVote) -> None:
        self.invariants.vote_saved(node.node, *vote)
        if vote.voted_for not in (0, node.node):
            self._node_faults.ambush.comes(Moment.VOTED, node)

    def started(self, node: ProtocolNode) -> None:
        self.invariants.restarted(node.node)
        self.invariants.vote_found(node.node, *node.votes.saved)

    def wiped(self, node: ProtocolNode) -> None:
        self.invariants.wiped(node.node)

    def disk_failed(self, node: ProtocolNode, failure: StoreError) -> None:
        if isinstance(failure, LossAcceptedError):
            self.loop.call_later(1.0, self._give_up, node, node.incarnation)
        elif node.log.failure is not None:
            self._node_faults.disk_failed(node)

    def _give_up(self, node: ProtocolNode, incarnation: int) -> None:
        """Its log is another one than that of the others: as its message says, it must be added again, empty."""
        if node.incarnation == incarnation:
            node.wipe()
            node.start()

    def loss_accepted(self, node: ProtocolNode) -> None:
        """This node leads, and what it lacks of what was committed is gone. No promise, where the run accepts that."""
        kept = self.invariants.kept_by(node.log)
        if kept == self.invariants.newest_commit or not self.options.accepted_loss:
            return
        self.invariants.forgive(kept)
        del self._spans[bisect_right(self._spans, kept, key=lambda each: each[0]) :]
        left = {span for _, span in self._spans}
        self._lost += self.deliveries.forgive(left.__contains__)
        self._consumer.forget(self.deliveries.ends(TOPIC))
        for producer in self._producers:
            producer.begin_anew()

    def _committed(self, log: SimNodeLog, index: int) -> None:
        assert isinstance(log, SimLog)
        header, body = log.entries[index - 1]
        if header.kind is EntryKind.BATCH:
            span = span_of(header, body)
            self._spans.append((index, span))
            self.deliveries.commit(span)

    # -- the end

    def settle(self, within_ms: int) -> list[str]:
        self._sending = False
        deadline = self.loop.time() + within_ms / 1000
        while self.loop.time() < deadline and self._unsettled() and not self.violations():
            self.loop.run_until(self.loop.time() + 0.5)
        if not self.violations():
            self._compare_all()
        return self._unsettled()

    def _unsettled(self) -> list[str]:
        """What is still missing for an end."""
        leader = leader_of(self._nodes)
        missing = [
            f"client {FIRST_CLIENT + i} has open sends" for i, each in enumerate(self._producers) if not each.idle
        ]
        if leader is None:
            return [*missing, "nobody leads"]
        last, entry = leader.log.last_index, leader.log.entries[-1]
        assert leader.raft is not None
        members = [self._node(member) for member in leader.raft.configuration.members]
        for node in members:
            if node.stranger:
                continue  # its disk was wiped, and nobody has removed it
            if not node.alive:
                missing.append(f"node {node.node} is down")
            elif node.log.last_index != last or node.log.entries[-1] != entry:
                missing.append(f"node {node.node} has another log than the leader")
            elif node.driver.applied != last:
                missing.append(f"node {node.node} has applied {node.driver.applied} of {last}")
        return missing

    def _compare_all(self) -> None:
        """All replicas are the same, and everything acknowledged is in them."""
        self.deliveries.finish()
        for node in self._nodes:
            if node.alive:
                self.invariants.check(node)
                self.invariants.same_state(node.node, node.driver.applied, node.machine.state.digest())

    # -- places

    def _node(self, node: int) -> ProtocolNode:
        return self._nodes[node - 1]

    def _numbers(self) -> range:
        return range(1, self.options.nodes + 1)

    def _now_ms(self) -> int:
        return round(self.loop.time() * 1000)


def _nobody(answer: Answer) -> None:
    """Somebody who asks, and does not need to be told."""

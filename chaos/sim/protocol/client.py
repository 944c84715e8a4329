"""Defines the clients of the protocol world: producers that retry batches with sequences, readers, and consumers.

Until a node confirms the commit of a batch, the producer sends the batch again and again with the same sequence. The
producer sends each batch to the node that it believes to be the leader. Requests and responses are datagrams, which
can arrive late, twice or out of order. The real clients use streams, which deliver each message once and in order.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from chaos.sim.campaign.swarm import Options
from chaos.sim.protocol.machine import Reply, SimAnswer, SimBatch, SimVerdict
from chaos.sim.stack.deliveries import Deliveries, MessageSpan, Stream

TOPIC = 1
# Added to a producer's id when it starts anew. Larger than the number of clients.
IDS = 1_000

# A batch without an answer is sent again after this time.
TRY_AGAIN_S = 1.0

# After this time a send is reported as unknown. The producer continues to retry the batch.
DELIVERY_S = 30.0

# Largest number of messages of one queue that wait for a batch.
MOST_WAITING = 40


class Service(Protocol):
    """The interface of the cluster as the clients of the protocol world see it."""

    def time(self) -> float: ...
    def produce(self, client: int, node: int, batch: SimBatch, reply: Reply) -> None: ...
    def read(self, client: int, node: int, floor: int, reply: Reply) -> None: ...


class _Attempt:
    """A batch that was sent and has no result yet."""

    __slots__ = ("batch", "done", "node", "sent_at", "since", "told_unknown")

    def __init__(self, batch: SimBatch, now: float) -> None:
        self.batch = batch
        self.since = self.sent_at = now
        # Node of the last attempt; 0 if there was none, or if that node answered that it does not lead.
        self.node = 0
        self.told_unknown = False
        self.done = False


class SimRoute:
    """The node that a client believes to be the leader."""

    __slots__ = ("_nodes", "_random", "leader")

    def __init__(self, nodes: int, random: Random) -> None:
        self._nodes = nodes
        self._random = random
        self.leader = random.randint(1, nodes)

    def doubt(self, hint: int, of: int) -> None:
        """Record that node `of` does not lead or does not answer. If the client believes that node `of` is the
        leader, the client chooses a new leader. The client then believes that `hint` is the leader, which is the
        node that node `of` named; if `hint` is 0, the client chooses a random node."""
        if of == self.leader:
            self.leader = hint or self._random.randint(1, self._nodes)


class SimSequencer:
    """Numbers and sends one producer's messages to one queue."""

    def __init__(self, client: int, stream: Stream, options: Options, route: SimRoute, random: Random) -> None:
        # Messages whose result was reported as unknown.
        self.unknown = 0
        self.sent = 0
        self._client = client
        self._stream = stream
        self._options = options
        self._route = route
        self._random = random
        # Messages that are in no batch yet.
        self._waiting = 0
        self._next_sequence = 0
        # Batches by ascending sequence, from the oldest unacknowledged batch on. The window is as wide as a leader's
        # memory of sequences, so an acknowledged batch stays in it until all earlier batches are acknowledged.
        self._in_flight: dict[int, _Attempt] = {}

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._in_flight

    def send(self, messages: int) -> None:
        """Add this number of messages to the buffer. If the buffer is full, the messages are dropped, but a real
        program would wait."""
        if self._waiting < MOST_WAITING:
            self.sent += messages
            self._waiting += messages

    def pump(self, service: Service, deliveries: Deliveries) -> None:
        """Send new batches while the window of batches in flight has room, and send unanswered batches again."""
        now = service.time()
        for attempt in [*self._in_flight.values()]:
            if not attempt.done and (attempt.node == 0 or now - attempt.sent_at >= TRY_AGAIN_S):
                self._route.doubt(0, attempt.node)
                self._send_all(service, deliveries)
                break
        while self._waiting and len(self._in_flight) < self._options.in_flight:
            self._send(self._next_batch(now), service, deliveries)
        for attempt in self._in_flight.values():
            if now - attempt.since < DELIVERY_S:
                break
            if not attempt.told_unknown and not attempt.done:
                attempt.told_unknown = True
                self.unknown += attempt.batch.messages

    def begin_anew(self, producer: int) -> None:
        """Continue with a new producer id, and report the results of the batches in flight as unknown."""
        self._stream = self._stream._replace(producer=producer)
        self._next_sequence = 0
        self.unknown += sum(each.batch.messages for each in self._in_flight.values() if not each.told_unknown)
        self._in_flight.clear()

    def _slide(self) -> None:
        while self._in_flight:
            oldest = next(iter(self._in_flight.values()))
            if not oldest.done:
                return
            del self._in_flight[oldest.batch.sequence]

    def _next_batch(self, now: float) -> _Attempt:
        messages = min(self._waiting, self._random.randint(1, self._options.largest_batch))
        batch = SimBatch(self._stream, self._next_sequence, messages, 16 + 40 * messages)
        self._waiting -= messages
        self._next_sequence += messages
        attempt = self._in_flight[batch.sequence] = _Attempt(batch, now)
        return attempt

    def _send_all(self, service: Service, deliveries: Deliveries) -> None:
        for attempt in [*self._in_flight.values()]:
            if not attempt.done:
                self._send(attempt, service, deliveries)

    def _send(self, attempt: _Attempt, service: Service, deliveries: Deliveries) -> None:
        attempt.sent_at = service.time()
        batch, node = attempt.batch, self._route.leader
        attempt.node = node
        service.produce(
            self._client, node, batch, lambda answer: self._answered(batch, node, answer, service, deliveries)
        )

    def _answered(
        self, batch: SimBatch, node: int, answer: SimAnswer, service: Service, deliveries: Deliveries
    ) -> None:
        attempt = self._in_flight.get(batch.sequence) if batch.stream == self._stream else None
        if answer.verdict is SimVerdict.DONE:
            span = MessageSpan(batch.stream, batch.sequence, batch.messages, answer.offset)
            deliveries.acknowledge(span, again=attempt is None or attempt.done)  # check repeated answers too
            if attempt is not None:
                attempt.done = True
            self._slide()
            self.pump(service, deliveries)
        elif attempt is None or attempt.done:
            return
        elif answer.verdict is SimVerdict.NOT_LEADER:
            self._route.doubt(answer.leader, node)
            if attempt.node == node:
                attempt.node = 0
        elif answer.verdict is SimVerdict.FORGOTTEN:
            deliveries.forgotten(batch.stream, batch.sequence)


class SimProducer:
    """A client that sends messages to all queues."""

    def __init__(self, client: int, options: Options) -> None:
        self.client = client
        self._lives = 0
        self._random = options.chance(f"producer {client}")
        route = SimRoute(options.nodes, self._random)
        self.sequencers = [
            SimSequencer(client, Stream(client, TOPIC, queue), options, route, self._random)
            for queue in range(options.queues)
        ]

    def send(self, messages: int, service: Service, deliveries: Deliveries) -> None:
        """Send as many messages as `messages` says to one queue, which is chosen at random."""
        sequencer = self._random.choice(self.sequencers)
        sequencer.send(messages)
        sequencer.pump(service, deliveries)

    def pump(self, service: Service, deliveries: Deliveries) -> None:
        for sequencer in self.sequencers:
            sequencer.pump(service, deliveries)

    @property
    def idle(self) -> bool:
        return all(sequencer.idle for sequencer in self.sequencers)

    def begin_anew(self) -> None:
        """Continue with a new producer id, because the cluster has possibly lost the sequences of the old producer
        id."""
        self._lives += 1
        for sequencer in self.sequencers:
            sequencer.begin_anew(self.client + IDS * self._lives)


class SimReader:
    """A client that makes linearizable reads."""

    def __init__(self, client: int, options: Options) -> None:
        self.answered = 0
        self._client = client
        self._route = SimRoute(options.nodes, options.chance(f"reader {client}"))
        self._waits = False

    def read(self, service: Service, floor: int) -> None:
        if self._waits:
            self._route.doubt(0, self._route.leader)
        node, self._waits = self._route.leader, True
        service.read(self._client, node, floor, lambda answer: self._answered(node, answer))

    def _answered(self, node: int, answer: SimAnswer) -> None:
        self._waits = False
        if answer.verdict is SimVerdict.DONE:
            self.answered += 1
        else:
            self._route.doubt(answer.leader, node)


class SimConsumer:
    """A client that reads every queue from its start, from any node."""

    def __init__(self, queues: int) -> None:
        self.consumed = 0
        # Next offset to read, by queue.
        self._next = [0] * queues

    def forget(self, ends: dict[int, int]) -> None:
        """Move the consumer's position in each queue back to the end of the queue in `ends`, because the messages
        after this end were lost."""
        self._next = [min(offset, ends.get(queue, 0)) for queue, offset in enumerate(self._next)]

    def take(self, queue: int, spans: list[MessageSpan], deliveries: Deliveries) -> None:
        """Read from the spans of a queue all messages that this consumer has not read yet."""
        at = self._next[queue]
        for span in _from(spans, at):
            for offset in range(max(at, span.offset), span.offset + span.messages):
                deliveries.deliver(TOPIC, queue, offset, span.stream, span.sequence + offset - span.offset)
                self.consumed += 1
                self._next[queue] = offset + 1


def _from(spans: list[MessageSpan], offset: int) -> list[MessageSpan]:
    """Return the spans that contain the message at `offset` or later messages."""
    first = len(spans)
    while first and spans[first - 1].offset + spans[first - 1].messages > offset:
        first -= 1
    return spans[first:]

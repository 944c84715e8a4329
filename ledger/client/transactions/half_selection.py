"""Gives messages of transactions to sequencers, whose batches wait in the topic `%HALF`.

    key or queue -> target queue -> a lane for its shard -> half batch for the queue of %HALF in this shard

The target queue is chosen as for other messages. Each message is a half batch of its own, and each half batch names its
target queue, so one sequencer takes half batches for all queues of a shard. A sequencer has at most five batches on
their way. While all sequencers of a shard are busy, more are made, with producer ids of their own: the *lanes* of the
shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ledger.batch import HalfColumn
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.producer_batch import Acknowledged, Piece, Receipt
from ledger.client.producer.queue_selection import QueueSelection
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import BusyError, InternalError, LedgerError
from ledger.timed import WaitingMessages
from ledger.topics import TOPICS_SHARD
from ledger.transactions import HALF_TOPIC
from ledger.v1 import transaction_pb2

# The sequencers of one shard. Each may have five batches on their way.
MAX_LANES = 64

# Makes a sequencer: (id of %HALF, queue of %HALF, shard, name for errors, settings) -> sequencer.
MakeLane = Callable[[int, int, int, str, DeliverySettings], QueueSequencer]


@dataclass(slots=True)
class _Lane:
    sequencer: QueueSequencer
    # Half batches without a result.
    unresolved: int = 0


@dataclass(frozen=True, slots=True)
class PlacedHalf:
    """Where a half batch waits: its shard, its number there, and its target queue."""

    shard: int
    number: int
    topic_id: int
    queue: int


class HalfQueueSelection(QueueSelection):
    """Chooses the target queue of each message of a transaction. The arguments are those of `QueueSelection`."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        delivery: DeliverySettings,
        make_lane: MakeLane,
        add: Callable[[QueueSequencer, Piece, bool], None],
        refund: Callable[[int], None],
        selector: QueueSelector | None,
        first_queue: int,
        is_available: Callable[[QueueSequencer], bool],
    ) -> None:
        super().__init__(
            client,
            # These sequencers stand for target queues, and get no batches.
            make_sequencer=lambda topic_id, queue, shard, name: make_lane(topic_id, queue, shard, name, delivery),
            add=self._add_half,
            refund=refund,
            is_available=is_available,
            selector=selector,
            first_queue=first_queue,
        )
        # The producer group whose topics are prepared if `%HALF` lacks a queue.
        self.group = ""
        self._delivery = delivery
        self._make_lane = make_lane
        self._add_to_lane = add
        # By id of %HALF and shard.
        self._lanes: dict[tuple[int, int], list[_Lane]] = {}

    async def _route(self, topic: str, *, newest: bool = False) -> RoutedTopic:
        route = await super()._route(topic, newest=newest)
        if not self._has_queues(route.shards):
            await prepare(self._client, self.group)
        if not self._has_queues(route.shards):
            raise BusyError(f'The queues of topic "{HALF_TOPIC}" are not open in all shards yet: send again shortly.')
        return route

    def _has_queues(self, shards: Iterable[int]) -> bool:
        half = self._client.routes.table.topics.get(HALF_TOPIC)
        return half is not None and set(shards) <= set(half.shards)

    def _add_half(self, target: QueueSequencer, piece: Piece, close: bool) -> None:
        target.closed += 1  # the next message without a key goes to the next queue
        assert isinstance(piece.receipt, HalfReceipt)
        half = self._client.routes.table.topics.get(HALF_TOPIC)
        if half is None or target.shard not in half.shards:
            self._fail(piece, BusyError(f'Topic "{HALF_TOPIC}" has no queue in shard {target.shard} yet.'))
            return
        lane = self._lane(half.topic_id, half.shards.index(target.shard), target.shard)
        piece.bound = True  # the batch names its target queue, so it cannot go to another queue
        piece.half = piece.receipt.column(target)
        piece.receipt.began(target, lane)
        lane.unresolved += 1
        self._add_to_lane(lane.sequencer, piece, True)

    def _lane(self, half_id: int, queue: int, shard: int) -> _Lane:
        lanes = self._lanes.setdefault((half_id, shard), [])
        for lane in lanes:
            if lane.unresolved < self._delivery.max_in_flight and lane.sequencer.fenced is None:
                return lane
        if len(lanes) >= MAX_LANES:
            return min(lanes, key=lambda lane: lane.unresolved)
        delivery = replace(self._delivery, producer_id=self._client.environment.new_producer_id())
        lanes.append(_Lane(self._make_lane(half_id, queue, shard, HALF_TOPIC, delivery)))
        return lanes[-1]


class HalfReceipt(Receipt):
    """Receives the result of one message of a transaction. `transaction` is the decision shard and the number of the
    transaction, and None for the message that begins it."""

    def __init__(
        self,
        group: str,
        transaction: tuple[int, int] | None,
        done: Callable[[PlacedHalf | LedgerError], None],
    ) -> None:
        self._group = group
        self._transaction = transaction
        self._done = done
        self._target: QueueSequencer | None = None
        self._lane: _Lane | None = None

    def observe(self, observer: Callable[[LedgerError | None], None]) -> None:
        """Call `observer` with the error of the message, or with None if a majority has it, before the result is passed
        on."""
        done = self._done

        def observed(result: PlacedHalf | LedgerError) -> None:
            observer(result if isinstance(result, LedgerError) else None)
            done(result)

        self._done = observed

    def column(self, target: QueueSequencer) -> HalfColumn:
        """Return what the half batch says about its transaction."""
        shard, number = (target.shard, None) if self._transaction is None else self._transaction
        return HalfColumn(target.topic_id, target.queue, shard, self._group, number)

    def began(self, target: QueueSequencer, lane: _Lane) -> None:
        self._target, self._lane = target, lane

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._leave()
        assert self._target is not None, "a half batch with a result has a target"
        self._done(PlacedHalf(self._target.shard, first_offset, self._target.topic_id, self._target.queue))

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self.failed(InternalError("A message of a transaction was given a delivery time."))

    def failed(self, error: LedgerError) -> None:
        self._leave()
        self._done(error)

    def _leave(self) -> None:
        if self._lane is not None:
            self._lane.unresolved -= 1
            self._lane = None


async def prepare(client: ClusterClient, group: str) -> None:
    """Ask the leader of shard 0 for the topics of a producer group's transactions. Raises InvalidArgumentError if nodes
    are too old for transactions, or another LedgerError."""
    request = transaction_pb2.PrepareTransactionsRequest(producer_group=group)
    await client.call_feature(
        "transactions", TOPICS_SHARD, lambda stub, seconds: stub.PrepareTransactions(request, timeout=seconds)
    )
    await client.topic(HALF_TOPIC, newest=True)

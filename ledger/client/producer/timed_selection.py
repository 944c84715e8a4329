"""Gives messages with delivery times to the sequencers of their target queues.

    key or queue -> target queue -> its sequencer -> batches for the queue of %TIMED in the shard of the target queue

The target queue is chosen as for other messages. Each target queue has a sequencer, whose batches wait in the queue of
`%TIMED` that is in the shard of the target queue. If `%TIMED` does not exist yet, or has no queue in the shard, the
leader of shard 0 creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.producer.producer_batch import Piece
from ledger.client.producer.queue_selection import QueueSelection
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.receipts import TimedReceipt
from ledger.errors import BusyError
from ledger.timed import TIMED_TOPIC
from ledger.topics import TOPICS_SHARD
from ledger.v1 import broker_pb2

# Makes the sequencer of a queue: (id of %TIMED, queue of %TIMED, shard, target topic, (target topic id, target queue)).
MakeTimedSequencer = Callable[[int, int, int, str, tuple[int, int]], QueueSequencer]


class TimedQueueSelection(QueueSelection):
    """Chooses the target queue of each piece (messages that are sent together) with delivery times. The arguments are
    those of `QueueSelection`."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        make_sequencer: MakeTimedSequencer,
        add: Callable[[QueueSequencer, Piece, bool], None],
        refund: Callable[[int], None],
        is_available: Callable[[QueueSequencer], bool],
        selector: QueueSelector | None,
        first_queue: int,
    ) -> None:
        super().__init__(
            client,
            make_sequencer=lambda topic_id, queue, shard, name: make_sequencer(
                *self._place_in(shard), shard, name, (topic_id, queue)
            ),
            add=self._add_waiting,
            refund=refund,
            is_available=is_available,
            selector=selector,
            first_queue=first_queue,
        )
        self._add_to_sequencer = add

    async def _route(self, topic: str, *, newest: bool = False) -> RoutedTopic:
        route = await super()._route(topic, newest=newest)
        if not self._has_queues(route.shards):
            await prepare_timed(self._client)
        if not self._has_queues(route.shards):
            raise BusyError(f'The queues of topic "{TIMED_TOPIC}" are not open in all shards yet: send again shortly.')
        return route

    def _changed(self, name: str) -> None:
        """Do what QueueSelection does. If the topic has a queue in a shard in which `%TIMED` has none, the topic is
        resolved again before its next message."""
        route = self._client.routes.table.topics.get(name)
        if route is not None and self.knows(name) and not self._has_queues(route.shards):
            self._put_aside(name)
        else:
            super()._changed(name)

    def _has_queues(self, shards: Iterable[int]) -> bool:
        timed = self._client.routes.table.topics.get(TIMED_TOPIC)
        return timed is not None and set(shards) <= set(timed.shards)

    def _place_in(self, shard: int) -> tuple[int, int]:
        """Return the id of `%TIMED`, and its queue in this shard."""
        timed = self._client.routes.table.topics[TIMED_TOPIC]
        return timed.topic_id, timed.shards.index(shard)

    def _add_waiting(self, sequencer: QueueSequencer, piece: Piece, close: bool) -> None:
        piece.bound = True  # the batch names its target queue, so it cannot go to another queue
        assert sequencer.target is not None
        piece.receipt = TimedReceipt(piece.receipt, sequencer.target, sequencer.shard, piece.delivery_times_ms())
        self._add_to_sequencer(sequencer, piece, close)


async def prepare_timed(client: ClusterClient) -> None:
    """Ask the leader of shard 0 to create `%TIMED` if it does not exist, and to give it a queue in each shard. Raises
    InvalidArgumentError if nodes are too old for delivery times, or another LedgerError."""
    request = broker_pb2.PrepareTimedRequest()
    await client.call_feature(
        "delivery times", TOPICS_SHARD, lambda stub, seconds: stub.PrepareTimed(request, timeout=seconds)
    )
    await client.topic(TIMED_TOPIC, newest=True)

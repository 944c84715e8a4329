"""Chooses the queue of each piece of messages, and gives the piece to the sequencer of the queue.

If a topic is unknown, the client asks the leader of shard 0 for the topic, with one request at a time. Until the
leader of shard 0 answers, pieces (messages that are sent together) for the topic wait in order. Pieces for a queue
that the client does not know yet also wait until the leader of shard 0 has answered. A topic that was deleted and
created again gets new sequencers. The client calls the user's queue selector immediately before it gives the messages
to a sequencer, because the number of queues is not known earlier.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.producer.common_batches import CommonMessages
from ledger.client.producer.plain_messages import PlainMessages
from ledger.client.producer.producer_batch import Piece
from ledger.client.producer.queue_selector import QueueSelector, UnplacedMessage, selected
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.topic_queue_selector import TopicQueueSelector
from ledger.errors import ClosedError, LedgerError

Parked = deque[tuple[Piece, int | None, bool]]


# Topics whose sequencers are kept although this client does not see them.
MAX_UNSEEN_TOPICS = 10_000


class QueueSelection:
    """Chooses the queue of each piece (messages that are sent together) of one producer, and adds the piece to the
    sequencer of the queue.

    Arguments:

        make_sequencer(topic_id, queue, shard, topic)  makes the sequencer of a queue
        add(sequencer, piece, close)            adds a piece to a sequencer
        refund(bytes)                           releases the buffer space of a piece that could not be placed
        is_available(sequencer)                 False: messages without a key or queue should avoid the sequencer's
                                                shard
        selector                                the user's function that chooses a queue, or None
        first_queue                             the number of the queue with which messages without a key begin
        common                                  takes pieces for common batches; None: the producer has none
        plain                                   plain messages may join the batches of pieces; None: none joins
    """

    def __init__(
        self,
        client: ClusterClient,
        *,
        make_sequencer: Callable[[int, int, int, str], QueueSequencer],
        add: Callable[[QueueSequencer, Piece, bool], None],
        refund: Callable[[int], None],
        is_available: Callable[[QueueSequencer], bool],
        selector: QueueSelector | None,
        first_queue: int,
        common: CommonMessages | None = None,
        plain: PlainMessages | None = None,
    ) -> None:
        self._client = client
        self._make_sequencer = make_sequencer
        self._add = add
        self._refund = refund
        self._is_available = is_available
        self._selector = selector
        self._first_queue = first_queue
        self._common = common
        self._plain = plain
        self._topics: dict[str, TopicQueueSelector] = {}
        # The sequencers of topics that this client does not see now, by topic id, oldest first. A topic that is seen
        # again, because the user got back its right, must go on with its numbers: with a new number 0 the broker would
        # take a message for one that it has.
        self._unseen: dict[int, TopicQueueSelector] = {}
        self._parked: dict[str, Parked] = {}
        self._resolving: dict[str, asyncio.Task[None]] = {}
        client.routes.on_topic_change.append(self._changed)

    def knows(self, topic: str) -> bool:
        return topic in self._topics

    def queues(self, topic: str) -> int:
        """Return the number of the topic's queues. The topic must be resolved."""
        return self._topics[topic].queues

    async def resolve(self, topic: str) -> None:
        """Wait until the queues of the topic are known. Raises UnknownTopicError, or another LedgerError if no
        leader answers."""
        if topic not in self._topics:
            await asyncio.shield(self._resolution(topic))

    def place(self, topic: str, piece: Piece, queue: int | None, *, close: bool = False) -> None:
        """Give the piece (messages that are sent together) to the sequencer of a queue: at once, or as soon as the
        client knows the topic's queues. If no queue can be chosen, the receipt of the piece gets the error."""
        sequencers = self._topics.get(topic)
        if sequencers is not None and (queue is None or queue < sequencers.queues):
            self._place(sequencers, piece, queue, close)
        else:
            self._resolution(topic)
            self._parked[topic].append((piece, queue, close))

    async def flush(self) -> None:
        """Wait until all topic requests that run now have ended, so that no piece waits for one of them."""
        if self._resolving:
            await asyncio.wait(list(self._resolving.values()))

    async def close(self) -> None:
        """Give ClosedError to all pieces that wait for a topic. After `close`, `place` must not be called."""
        if self._changed in self._client.routes.on_topic_change:
            self._client.routes.on_topic_change.remove(self._changed)
        await asyncio.sleep(0)  # lets new tasks begin: a task cancelled before its first step could not fail its pieces
        tasks = list(self._resolving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _place(self, sequencers: TopicQueueSelector, piece: Piece, queue: int | None, close: bool) -> None:
        try:
            if self._selector is not None and queue is None and piece.count == 1 and piece.values:
                queue = self._selected(self._selector, sequencers, piece)
            # A message with an id that is sent again must meet the shard that has it, so the id chooses the queue.
            key = piece.message_id if piece.key is None else piece.key
            piece.bound = queue is not None or key is not None
            common = self._common
            if common is not None and common.goes_there(piece, close):
                sequencer = common.sequencers(sequencers).pick(key, queue)
                if sequencer.fenced is not None:
                    sequencer = common.replace(sequencer)
                common.add(sequencer, piece)
                return
            sequencer = sequencers.pick(key, queue)
            if sequencer.fenced is not None:
                raise sequencer.fenced
        except LedgerError as error:
            self._fail(piece, error)
        else:
            if common is not None:
                common.go_before(sequencer)
            self._add(sequencer, piece, close)
            if self._plain is not None:
                limit = self._client.routes.table.max_message_bytes
                self._plain.placed(sequencers.topic, sequencers.queues, sequencer, piece, limit)

    def _selected(self, selector: QueueSelector, sequencers: TopicQueueSelector, piece: Piece) -> int | None:
        value = piece.values[0]
        message = UnplacedMessage(sequencers.topic, value, piece.key, piece.tag, piece.headers or ())
        return selected(selector, message, sequencers.queues)

    def _fail(self, piece: Piece, error: LedgerError) -> None:
        self._refund(piece.size)
        piece.receipt.failed(error)

    def _resolution(self, topic: str) -> asyncio.Task[None]:
        task = self._resolving.get(topic)
        if task is None:
            self._parked[topic] = deque()
            task = self._resolving[topic] = asyncio.get_running_loop().create_task(self._resolve(topic))
            task.add_done_callback(_seen)
        return task

    async def _resolve(self, topic: str) -> None:
        error: LedgerError | None = None
        try:
            route = await self._route(topic)
            if self._asks_for_more(topic, len(route.shards)):  # the topic may have more queues by now
                route = await self._route(topic, newest=True)
            if topic not in self._topics:  # otherwise `_changed` has extended its sequencers already
                self._topics[topic] = self._seen_again(route) or TopicQueueSelector(
                    topic, route.topic_id, self._sequencers_of(route), self._first_queue, self._is_available
                )
        except LedgerError as failed:
            error = failed
            raise
        except asyncio.CancelledError:  # close() cancelled this task, not the calls that wait for it
            error = ClosedError("The producer was closed before it found this topic: the message was not sent.")
            raise error from None
        finally:
            del self._resolving[topic]
            self._unpark(topic, error)

    async def _route(self, topic: str, *, newest: bool = False) -> RoutedTopic:
        """Return the topic with this name. Raises UnknownTopicError, or another LedgerError if no leader answers."""
        return await self._client.topic(topic, newest=newest)

    def _asks_for_more(self, topic: str, queues: int) -> bool:
        return any(queue is not None and queue >= queues for _, queue, _ in self._parked[topic])

    def _changed(self, name: str) -> None:
        """Make sequencers for the new queues of the topic. If the topic was deleted, or deleted and created again, or
        if this user does not see the topic any more, put its sequencers aside."""
        sequencers, route = self._topics.get(name), self._client.routes.table.topics.get(name)
        if sequencers is None:
            return
        if route is None or route.topic_id != sequencers.topic_id:
            self._put_aside(name)  # the broker refuses the batches that are in these sequencers
        elif sequencers.queues < len(route.shards):
            sequencers.extend(self._sequencers_of(route, sequencers.queues))

    def _put_aside(self, name: str) -> None:
        """Keep the sequencers of the topic until the topic is resolved again."""
        sequencers = self._topics.pop(name)
        self._unseen[sequencers.topic_id] = sequencers
        if len(self._unseen) > MAX_UNSEEN_TOPICS:
            del self._unseen[next(iter(self._unseen))]

    def _seen_again(self, route: RoutedTopic) -> TopicQueueSelector | None:
        """Return the sequencers that the topic had before this client did not see it, or None."""
        known = self._unseen.pop(route.topic_id, None)
        if known is not None and known.queues < len(route.shards):
            known.extend(self._sequencers_of(route, known.queues))
        return known

    def _sequencers_of(self, route: RoutedTopic, first: int = 0) -> list[QueueSequencer]:
        """Make and return sequencers for the queues of the topic that have the number `first` or a higher number."""
        return [
            self._make_sequencer(route.topic_id, queue, route.shards[queue], route.name)
            for queue in range(first, len(route.shards))
        ]

    def _unpark(self, topic: str, error: LedgerError | None) -> None:
        for piece, queue, close in self._parked.pop(topic):
            if error is not None:
                self._fail(piece, error)
            else:
                self._place(self._topics[topic], piece, queue, close)


def _seen(task: asyncio.Task[None]) -> None:
    """Read the exception of the task, so that asyncio does not log it. `_resolve` has already passed the error to
    the receipts of the pieces that waited."""
    if not task.cancelled():
        task.exception()

"""Common batches: small messages of all producers of a program travel together.

A batch costs the client and the cluster about as much as a hundred small messages. A thousand producers that each await
their sends would need a batch for each message. So producers with the same link and equal delivery settings give small
messages to a *common sender*, which has sequencers, sequence numbers and producer ids of its own:

    a small message, and the producer has little under way ──> CommonSender ──> batches with messages of all producers
    any other messages ──> the producer's own sequencers ─────────────────────> batches with its messages only

Batches in bulk stay the producer's own, so they do not delay the small messages of other producers. A producer that
changes between the two keeps the order of its messages: its own sequencers wait until the common batches of their
queues are finished (`QueueSequencer.follow`), and it returns to common batches when it has nothing under way.

If a broker refuses a common batch because of some of its messages, only these fail (`LedgerError.places`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.cluster_link import ClusterLink
from ledger.client.connection.environment import Environment
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.buffer import Buffer
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.fault_table import FaultTable, Steps
from ledger.client.producer.producer_batch import Acknowledged, Piece, Receipt
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.sender import Sender
from ledger.client.producer.topic_queue_selector import TopicQueueSelector
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledger.timed import WaitingMessages

# If more sequencers than this are kept, topics without unfinished messages make room for new ones.
MAX_QUEUES = 10_000


@dataclass(frozen=True, slots=True)
class CommonKey:
    """Producers of one link with equal keys have common batches. The producer id of `delivery` is 0."""

    delivery: DeliverySettings
    fault_steps: tuple[tuple[float, float], ...]
    retry_backoff_ms: float

    @classmethod
    def of(cls, delivery: DeliverySettings, fault_steps: Steps, retry_backoff_ms: float) -> CommonKey:
        steps = tuple((latency, duration) for latency, duration in fault_steps)
        return cls(replace(delivery, producer_id=0), steps, retry_backoff_ms)


class CommonSenders:
    """The common senders of a link (`ClusterLink.part`)."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._senders: dict[CommonKey, CommonSender] = {}

    def join(self, key: CommonKey, backoff: Backoff, environment: Environment) -> CommonSender:
        """Add a user to the sender with this key, which calls `leave` once. The first user's `backoff` and
        `environment` are used."""
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = CommonSender(
                self._link, key, backoff, environment, lambda: self._senders.pop(key)
            )
        sender.users += 1
        return sender


class CommonSender:
    """Sends the small messages of several producers. Each topic has a producer id of its own."""

    def __init__(
        self,
        link: ClusterLink,
        key: CommonKey,
        backoff: Backoff,
        environment: Environment,
        on_ended: Callable[[], object],
    ) -> None:
        """`on_ended` is called once, when the last user leaves."""
        self.users = 0
        self._delivery = key.delivery
        self._new_producer_id = environment.new_producer_id
        self._on_ended = on_ended
        self._accumulator = Accumulator(key.delivery, backoff, FaultTable(key.fault_steps))
        # The bytes of a message go back to the buffer of its producer with its receipt.
        self.sender = Sender(link, self._accumulator, now_ms=environment.now_ms, release=lambda _: None)
        # By topic id, the oldest first.
        self._topics: dict[int, TopicQueueSelector] = {}
        self._queues = 0

    async def leave(self) -> None:
        """Remove a user, whose messages all have results. The last one ends the sender."""
        self.users -= 1
        if not self.users:
            self._on_ended()
            await self.sender.close()

    @property
    def trouble(self) -> LedgerError | None:
        return self._accumulator.trouble

    def known(self, topic_id: int) -> TopicQueueSelector | None:
        """Return the sequencers of the topic, if there are any."""
        return self._topics.get(topic_id)

    def like(self, own: TopicQueueSelector) -> TopicQueueSelector:
        """Return the common sequencers of the topic of `own`, for at least its queues."""
        known = self._topics.get(own.topic_id)
        if known is not None and known.queues >= own.queues:
            return known
        new = own.queues - (0 if known is None else known.queues)
        self._make_room(new, but=own.topic_id)
        self._queues += new
        producer_id = self._new_producer_id()
        like = (own.sequencer(queue) for queue in range(own.queues - new, own.queues))
        sequencers = [self._sequencer(each, own.topic, producer_id) for each in like]
        if known is None:
            known = self._topics[own.topic_id] = TopicQueueSelector(
                own.topic, own.topic_id, sequencers, own.current, self.sender.is_available
            )
        else:
            known.extend(sequencers)
        return known

    def replace(self, fenced: QueueSequencer) -> QueueSequencer:
        """Replace a sequencer that refuses every piece, because another program used its producer id."""
        known = self._topics[fenced.topic_id]
        new = self._sequencer(fenced, known.topic, self._new_producer_id())
        new.follow(fenced, self.sender.poll_soon)
        known.replace(fenced.queue, new)
        return new

    def _make_room(self, queues: int, but: int) -> None:
        """Forget topics without unfinished messages, except the topic `but`, until there is room for so many queues, or
        there is no such topic."""
        idle = (topic_id for topic_id, known in list(self._topics.items()) if topic_id != but and known.is_idle)
        while self._queues + queues > MAX_QUEUES and (topic_id := next(idle, None)) is not None:
            self._queues -= self._topics.pop(topic_id).queues

    def _sequencer(self, like: QueueSequencer, topic: str, producer_id: int) -> QueueSequencer:
        delivery = replace(self._delivery, producer_id=producer_id)
        return self._accumulator.lane(like.topic_id, like.queue, like.shard, topic, delivery)


class CommonMessages:
    """The messages that one producer has in common batches."""

    def __init__(
        self, common: CommonSender, buffer: Buffer, delivery: DeliverySettings, resume: Callable[[], None]
    ) -> None:
        """`delivery` are the settings of the producer. `resume` is called when own batches that waited for common ones
        can be sent."""
        self._common = common
        self._buffer = buffer
        self._small_bytes, self._most_bytes = delivery.small_bytes, delivery.common_bytes
        self._resume = resume
        # Where the next small message goes. While it is False, the producer has batches of its own under way.
        self._goes_common = True
        # How often the producer has changed to own batches.
        self._changes = 0
        # The receipts of messages without a result. A dict, because a set has no order.
        self._owed: dict[_CommonReceipt, None] = {}
        self._some_ended = asyncio.Event()

    @property
    def trouble(self) -> LedgerError | None:
        """The last error of a common batch without a result."""
        return self._common.trouble

    def goes_there(self, piece: Piece, close: bool) -> bool:
        """Decide whether a piece goes in a common batch. The buffer's used bytes include the piece. `close` says that
        its batch has no later messages.

        A message with an id or with look-up keys goes in an own batch. Brokers can refuse such a message for a while,
        and only messages with ids can share a batch with it."""
        used = self._buffer.used
        if not self._goes_common and used != piece.size:
            return False  # the producer has other messages under way
        is_plain = piece.message_id is None and not piece.look_up_keys
        is_small = is_plain and len(piece.values) == 1 and piece.size <= self._small_bytes and not close
        if self._goes_common:
            if not is_small or used > self._most_bytes:
                self._goes_common = False
                self._changes += 1
        elif is_small:
            self._goes_common = True
        return self._goes_common

    def sequencers(self, own: TopicQueueSelector) -> TopicQueueSelector:
        """Return the common sequencers of the topic of `own`, the sequencers of the producer."""
        return self._common.like(own)

    def add(self, sequencer: QueueSequencer, piece: Piece) -> None:
        """Add a piece to a common batch."""
        piece.receipt = receipt = _CommonReceipt(self, piece.receipt, piece.size)
        self._owed[receipt] = None
        self._common.sender.add(sequencer, piece, False)

    def replace(self, fenced: QueueSequencer) -> QueueSequencer:
        """Replace a common sequencer that refuses every piece, because another program used its producer id."""
        return self._common.replace(fenced)

    def go_before(self, own: QueueSequencer) -> None:
        """Let the messages that are in common batches go before those that `own`, a sequencer of this producer, gets
        now."""
        if own.seen_change == self._changes:
            return
        own.seen_change = self._changes
        common = self._common.known(own.topic_id)
        if common is not None and own.queue < common.queues:
            own.follow(common.sequencer(own.queue), self._resume)

    async def flush(self) -> None:
        """Wait until every message that was added so far is acknowledged or has failed."""
        self._common.sender.hasten()
        owed = list(self._owed)
        while owed := [receipt for receipt in owed if receipt in self._owed]:
            self._some_ended.clear()
            await self._some_ended.wait()

    async def leave(self) -> None:
        """Fail all messages without a result, which may be sent later, and leave the common sender."""
        try:
            for receipt in list(self._owed):
                self._give_up(receipt)
        finally:
            await self._common.leave()

    def _give_up(self, receipt: _CommonReceipt) -> None:
        try:
            receipt.failed(
                DeliveryTimeoutError(
                    "The producer was closed before this message was acknowledged. It may be in its queue now or "
                    "appear there later: read the queue before you send it again.",
                    maybe_committed=True,
                )
            )
        except Exception as error:  # the other receipts get their results
            context = {"message": "a program cannot take the result of a send", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _finish(self, receipt: _CommonReceipt) -> bool:
        """Record that the program gets a result. Return False if it has one."""
        if receipt not in self._owed:
            return False
        del self._owed[receipt]
        self._buffer.release(receipt.size)
        self._some_ended.set()
        return True


class _CommonReceipt:
    """Gives the bytes of a message back to the buffer of its producer, and passes the result on. Implements Receipt."""

    __slots__ = ("_inner", "_messages", "size")

    def __init__(self, messages: CommonMessages, inner: Receipt, size: int) -> None:
        self._messages = messages
        self._inner = inner
        self.size = size

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        if self._messages._finish(self):
            self._inner.acknowledged(queue, first_offset, count, answer)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise NotImplementedError("messages with delivery times are in no common batch")

    def failed(self, error: LedgerError) -> None:
        if self._messages._finish(self):
            self._inner.failed(error)

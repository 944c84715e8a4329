"""Gives fetches access to the queues of this node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ledger.broker.consumer_groups.delays import Delays
from ledger.broker.fetch.fetch import MAX_TURN_STEPS
from ledger.broker.fetch.fetch_result import FetchResult
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.fetch.response_budget import ResponseBudget
from ledger.broker.meter import Meter
from ledger.broker.replicas import Replicas
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import ReplicaBehindError, UnknownQueueError, UnknownTopicError
from ledger.topics import check_readable
from store import CommitLog, ConsumeQueue


@dataclass(frozen=True, slots=True)
class QueueReader:
    """Reads one queue of this node for fetches. `QueueReader` implements `ledger.broker.fetch.fetch.ReadableQueue`."""

    log: CommitLog
    units: ConsumeQueue
    end_offset: int
    is_at_the_end: bool
    due_in_s: float | None = None


class FetchableQueues:
    """Gives fetches access to the queues of all replicas of this node. `FetchableQueues` implements
    `ledger.broker.fetch.fetch.ReadableQueues`."""

    def __init__(self, replicas: Replicas, fetch_waiters: FetchWaiters, delays: Delays) -> None:
        """When a replica of `replicas` applies an entry, the replica wakes the fetches in `fetch_waiters`."""
        self.response_budget = ResponseBudget()
        self.turns = TurnBudget(MAX_TURN_STEPS)
        self._replicas = replicas
        self._fetch_waiters = fetch_waiters
        self._delays = delays

    def readable(self, topic_id: int, queue: int) -> QueueReader:
        """Return a reader of the queue. The reader returns no message whose delay has not passed.

        Raises UnknownTopicError, UnknownQueueError, or InvalidTopicNameError for a topic that no client reads. If the
        topic or queue can exist although this replica does not know it yet, raises ReplicaBehindError. If too many
        bytes of responses are not sent yet, raises BusyError.
        """
        self.response_budget.check_room()
        replica = self._replicas.of_queue(topic_id, queue)
        try:
            topic = replica.state.topics.require(topic_id, queue)
        except (UnknownTopicError, UnknownQueueError) as error:
            if replica.knows_the_end:
                raise
            raise ReplicaBehindError(
                f"this node has not applied the creation of queue {queue} of topic {topic_id} yet: try again"
            ) from error
        check_readable(topic.name)
        due = self._delays.due(replica, topic_id, queue)
        return QueueReader(
            replica.log,
            replica.queues.get(topic_id, queue),
            replica.state.next_offset(topic_id, queue) if due is None else due.end_offset,
            # By the clock of another node more messages may have been due, and may have been fetched there.
            replica.knows_the_end and due is None,
            None if due is None else due.next_in_s,
        )

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        """Return a future that ends when an entry of one of `queues` is applied."""
        return self._fetch_waiters.wait_for(queues)

    def count(self, result: FetchResult, meter: Meter) -> tuple[int, int]:
        """Count the messages and bytes of a result in the metrics of their topics, and return both numbers."""
        all_messages = all_bytes = 0
        for given in result.queues:
            if given.batches and (topic := self._replicas.topic(given.topic_id)) is not None:
                messages = sum(batch.messages for batch in given.batches)
                size = sum(len(batch.body) for batch in given.batches)
                saved = sum(batch.saved_bytes for batch in given.batches)
                meter.fetched(topic.name, messages, size, saved)
                all_messages, all_bytes = all_messages + messages, all_bytes + size
        return all_messages, all_bytes

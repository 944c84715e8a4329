"""Claims queues at the leaders of their shards. A claim fences all earlier owners of the queue.

    request     the epoch from the coordinator; no epoch in a broadcast
    response    the committed offset, the settled offsets after it, and the number of resets of the queue
    result      an AssignedQueue, which continues at the committed offset

In a consumer group the coordinator chooses the epoch of a claim. In a broadcast the leader of the queue's shard
chooses the epoch. In a broadcast, the first claim of a consumer gets an epoch above all earlier epochs of the queue,
and later claims of this consumer use the same epoch. If a second consumer of a broadcast uses the same instance name,
the claim of the second consumer has a higher epoch. After this claim, the next claim of the first consumer is
rejected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ledger.client.admin.offsets import in_ms, offsets_for_times
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.cursor import Cursor
from ledger.client.group.assigned_queue import AssignedQueue
from ledger.client.group.group_membership import Assignment
from ledger.client.records import TopicQueue
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import ConsumerFencedError, LedgerError, from_wire
from ledger.topics import is_system_topic
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.group_consumer")

GroupStart = Literal["earliest", "latest"] | datetime
# For one queue: how many messages may be in hand, and how many offsets they may span.
MAX_IN_HAND, MAX_SPAN = 1_000, 2_000


@dataclass(frozen=True, slots=True)
class AssignmentSettings:
    consumer_group: str
    start: GroupStart
    tags: Collection[str] | None
    check_crcs: bool
    # Seconds between acknowledgements.
    interval_s: float
    # How many seconds messages in hand may delay the release of their queue.
    release_s: float
    deserializer: Callable[[bytes], Any] | None = None


class MemberClaims:
    """Claims queues for one consumer."""

    def __init__(self, client: ClusterClient, settings: AssignmentSettings) -> None:
        self._client = client
        self._settings = settings
        # In a broadcast: the epoch of the first claim of each queue (topic id, number).
        self._own_epochs: dict[tuple[int, int], int] = {}
        # In a broadcast: the error of a rejected claim.
        self.refusal: LedgerError | None = None

    async def claim(self, shard: int, new: Mapping[TopicQueue, Assignment]) -> list[AssignedQueue]:
        """Claim queues of one shard, and return the queues whose claim was accepted. Raises LedgerError if the shard's
        leader cannot be reached.
        """
        starts = await self._starts(list(new))
        request = consumer_group_pb2.ClaimRequest(shard=shard, consumer_group=self._settings.consumer_group)
        for place, owned in new.items():
            epoch = owned.epoch or self._own_epochs.get((owned.topic_id, place.queue), 0)
            request.queues.add(topic_id=owned.topic_id, queue=place.queue, epoch=epoch, start_offset=starts[place])
        response = await self._client.call(shard, lambda stub, seconds: stub.Claim(request, timeout=seconds))
        assigned_queues = []
        for (place, owned), claim, progress in zip(new.items(), request.queues, response.queues, strict=True):
            if progress.HasField("error"):
                self._note_refusal(place, owned, self._client.routes.table.with_names(from_wire(progress.error)))
            else:
                assigned_queues.append(self._assigned(place, shard, claim, progress))
        return assigned_queues

    def _assigned(
        self,
        place: TopicQueue,
        shard: int,
        claim: consumer_group_pb2.QueueClaim,
        progress: consumer_group_pb2.QueueProgress,
    ) -> AssignedQueue:
        if progress.epoch:
            self._own_epochs[claim.topic_id, claim.queue] = progress.epoch
        cursor = Cursor(
            place.topic,
            claim.topic_id,
            place.queue,
            offset=progress.offset,
            tags=self._settings.tags,
            check_crcs=self._settings.check_crcs,
            deserializer=self._settings.deserializer,
        )
        epoch = progress.epoch or claim.epoch
        return AssignedQueue(cursor, shard, epoch, progress.resets, progress.settled, most=MAX_IN_HAND, span=MAX_SPAN)

    def _note_refusal(self, place: TopicQueue, owned: Assignment, error: LedgerError) -> None:
        """Log a rejected claim. In a consumer group the coordinator soon reports the new owner of the queue. A
        broadcast has no coordinator, so the error is kept, and the next read raises this error.
        """
        log.info("the claim of queue %d of %s was rejected: %s", place.queue, place.topic, error)
        if not owned.epoch and isinstance(error, ConsumerFencedError):
            self.refusal = ConsumerFencedError(
                f'Another consumer of the broadcast runs as "{self._settings.consumer_group}" and has claimed queue '
                f'{place.queue} of "{place.topic}": give each consumer of a broadcast an instance name of its own.'
            )

    async def _starts(self, places: list[TopicQueue]) -> Mapping[TopicQueue, int]:
        """Return, for each queue, the offset at which the consumer group starts if it has never consumed the queue."""
        start = self._settings.start
        own = {place: AT_THE_FIRST for place in places if is_system_topic(place.topic)}
        others = [place for place in places if place not in own]
        if isinstance(start, datetime):
            return own | await offsets_for_times(self._client, dict.fromkeys(others, in_ms(start)))
        return own | dict.fromkeys(others, AT_THE_FIRST if start == "earliest" else BEHIND_THE_LAST)

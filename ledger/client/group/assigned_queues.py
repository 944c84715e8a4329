"""The queues assigned to this member: claimed when assigned, then acknowledged, and released when another member gets
them.

    assignment ──> claim ──> AssignedQueue + cursor in a fetcher ──> acknowledge ──> release, or dropped at another
    epoch

The coordinator says which queues this member owns. The shard of a queue says where the queue begins, and whether this
member's acknowledgements count. If either rejects the member, the queue is dropped here with its messages in hand; the
next owner receives those messages again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.fetchers import Fetchers
from ledger.client.group.assigned_queue import AssignedQueue
from ledger.client.group.claiming import AssignmentSettings, Claims
from ledger.client.group.group_membership import Assignment, AssignmentSource, View
from ledger.client.records import Message, TopicQueue
from ledger.errors import ClosedError, ConsumerFencedError, LedgerError, OffsetTooLowError, UnknownTopicError, from_wire
from ledger.retries import retry_topic
from ledger.topics import TOPICS_SHARD
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.group_consumer")

_CLAIMS_AT_ONCE = 1_000
_PLACE, _OFFSET = attrgetter("topic", "queue"), attrgetter("offset")


class AssignedQueues:
    """`on_news` is called after every change that a waiting reader should look at."""

    def __init__(
        self,
        client: ClusterClient,
        member: AssignmentSource,
        settings: AssignmentSettings,
        fetching: FetchSettings,
        on_news: Callable[[], None],
    ) -> None:
        self._client = client
        self._member = member
        self._settings = settings
        self._claims = Claims(client, settings)
        self._on_news = on_news
        self._view: View = {}
        self._by_place: dict[TopicQueue, AssignedQueue] = {}
        # As the last claim of each queue was answered.
        self._resets: dict[TopicQueue, int] = {}
        self._fetchers = Fetchers(client, fetching, on_news)
        self._changed = asyncio.Event()
        # How often a queue has gone elsewhere.
        self.losses = 0

    def __iter__(self) -> Iterator[AssignedQueue]:
        """Beginning with another one each time: the first ones may get everything."""
        for first in list(self._by_place)[:1]:
            self._by_place[first] = self._by_place.pop(first)
        return iter(list(self._by_place.values()))

    def get(self, place: TopicQueue) -> AssignedQueue | None:
        return self._by_place.get(place)

    def places(self) -> list[TopicQueue]:
        return sorted(self._by_place)

    def seen(self, view: View) -> None:
        """The coordinator says that these are this member's. What is not is let go at once: who is to claim and to
        release may wait for an answer at the moment."""
        self._view = view
        self._drop_lost()
        self._changed.set()
        self._on_news()

    def seek(self, assigned: AssignedQueue, offset: int) -> None:
        assigned.seek(offset)
        self._restart(assigned)

    def pause(self, assigned: AssignedQueue) -> None:
        assigned.cursor.pause()
        self._restart(assigned)

    def resume(self, assigned: AssignedQueue) -> None:
        assigned.cursor.paused = False
        self._restart(assigned)

    def finish(self, messages: Iterable[Message], *, only_held: bool = False) -> None:
        """These are consumed. Where their queue has gone elsewhere it does not count; with `only_held`, neither where
        its offset was reset since they were handed out."""
        for (topic, queue), some in groupby(messages, _PLACE):
            assigned = self._by_place.get(TopicQueue(topic, queue))
            if assigned is not None:
                if only_held:
                    assigned.finish_held(some)
                else:
                    assigned.finish(map(_OFFSET, some))
                if assigned.is_leaving and assigned.is_finished:
                    self._changed.set()

    def made_room(self) -> None:
        self._fetchers.made_room()

    def trouble(self) -> LedgerError | None:
        """What stands in the way of reading on."""
        errors = [self._member.trouble, self._claims.refusal]
        errors += [assigned.cursor.error for assigned in self._by_place.values() if not assigned.cursor.ready]
        errors += self._fetchers.troubles()
        return next((error for error in errors if error is not None), None)

    async def close(self) -> None:
        await self._fetchers.close()

    # -- they come and go

    async def run(self) -> None:
        """Claims what has come, and lets go what has gone, until it is cancelled or the client is closed."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self._drop_lost()
                await self._release()
                await self._claim()
                failures = 0
            except ClosedError:
                return
            except LedgerError as error:
                log.warning("consumer group %s: %s", self._settings.consumer_group, error)
                failures += 1
                await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)
                self._changed.set()

    def _drop_lost(self) -> None:
        for place, assigned in list(self._by_place.items()):
            owned = self._view.get(place)
            if owned is None or not _is_same(owned, assigned):
                self._drop(assigned)

    def _drop(self, assigned: AssignedQueue) -> None:
        if self._by_place.get(assigned.place) is assigned:
            del self._by_place[assigned.place]
            self.losses += 1
            self._fetchers.remove(assigned.shard, assigned.cursor)

    async def _release(self) -> None:
        """Of the queues that are to go elsewhere, those of which nothing is in hand, or has been for too long."""
        view = self._view
        done = [assigned for place, assigned in self._by_place.items() if self._lets_go(assigned, view[place])]
        unclaimed = [
            (place, owned) for place, owned in view.items() if owned.is_leaving and place not in self._by_place
        ]
        if done or unclaimed:
            await self.acknowledge(done)
            # Meanwhile some may have become this member's for good again, or another one's.
            view = {place: owned for place, owned in self._view.items() if owned.is_leaving}
            done = [assigned for assigned in done if assigned.place in view]
            if finished := [*((assigned.place, view[assigned.place]) for assigned in done), *unclaimed]:
                await self._member.release(finished)
            for assigned in done:
                self._drop(assigned)

    def _lets_go(self, assigned: AssignedQueue, owned: Assignment) -> bool:
        now = asyncio.get_running_loop().time()
        if not owned.is_leaving:
            assigned.leaves_by = None
            return False
        if assigned.leaves_by is None:
            assigned.leaves_by = now + self._settings.release_s
            asyncio.get_running_loop().call_at(assigned.leaves_by, self._changed.set)
        return assigned.is_finished or now >= assigned.leaves_by

    async def _claim(self) -> None:
        view, topics = self._view, self._client.routes.table.topics
        new: dict[int, dict[TopicQueue, Assignment]] = {}
        for place, owned in sorted(view.items()):
            topic = topics.get(place.topic)
            is_there = topic is not None and topic.topic_id == owned.topic_id and place.queue < len(topic.shards)
            if topic is not None and is_there and not owned.is_leaving and place not in self._by_place:
                new.setdefault(topic.shards[place.queue], {})[place] = owned
        for shard, places in sorted(new.items()):
            for first in range(0, len(places), _CLAIMS_AT_ONCE):
                some = list(places.items())[first : first + _CLAIMS_AT_ONCE]
                assigned_queues = await self._claims.claim(shard, dict(some))
                for assigned in assigned_queues:
                    assigned.was_reset = self._resets.get(assigned.place, assigned.resets) != assigned.resets
                    self._resets[assigned.place] = assigned.resets
                    self._by_place[assigned.place] = assigned
                self._drop_lost()  # some may have gone elsewhere meanwhile
                here = [assigned for assigned in assigned_queues if self._by_place.get(assigned.place) is assigned]
                self._fetchers.start(shard)
                self._fetchers.add(shard, [assigned.cursor for assigned in here])
        if self._claims.refusal is not None:
            self._on_news()

    # -- acknowledgements

    async def keep_acknowledging(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_s)
            try:
                await self.acknowledge(self)
            except ClosedError:
                return
            except LedgerError as error:
                log.warning("consumer group %s: not acknowledged yet: %s", self._settings.consumer_group, error)

    async def acknowledge(self, assigned_queues: Iterable[AssignedQueue]) -> None:
        """Tell what is finished of these; returns when that is committed. Raises LedgerError where it cannot be told;
        queues that have gone elsewhere are dropped."""
        due: dict[int, list[tuple[AssignedQueue, int]]] = {}
        for assigned in assigned_queues:
            if (offset := assigned.finished_up_to) > assigned.acknowledged:
                due.setdefault(assigned.shard, []).append((assigned, offset))
        for shard, some in sorted(due.items()):
            await self._acknowledge_some(shard, some)

    async def _acknowledge_some(self, shard: int, due: list[tuple[AssignedQueue, int]]) -> None:
        request = consumer_group_pb2.AcknowledgeRequest(shard=shard, consumer_group=self._settings.consumer_group)
        for assigned, offset in due:
            request.queues.add(
                topic_id=assigned.cursor.topic_id,
                queue=assigned.cursor.queue,
                epoch=assigned.epoch,
                resets=assigned.resets,
                offset=offset,
            )

        response = await self._client.call(shard, lambda stub, seconds: stub.Acknowledge(request, timeout=seconds))
        for (assigned, offset), progress in zip(due, response.queues, strict=True):
            if not progress.HasField("error"):
                assigned.acknowledged = max(assigned.acknowledged, offset)
                continue
            error = from_wire(progress.error)
            log.warning("queue %d of %s: %s", assigned.place.queue, assigned.place.topic, error)
            if isinstance(error, (ConsumerFencedError, UnknownTopicError)):
                self._drop(assigned)
                self._changed.set()  # where it is this member's still, it is claimed again

    async def move(self, message: Message, *, give_up: bool) -> None:
        """To be handed out again later, or to the dead letters. Where the queue has gone elsewhere, the message has
        too; where its topic was deleted, it is gone. Raises LedgerError."""
        place = TopicQueue(message.topic, message.queue)
        assigned = self._by_place.get(place)
        if assigned is None:
            return
        request = consumer_group_pb2.MoveRequest(
            shard=assigned.shard,
            consumer_group=self._settings.consumer_group,
            topic_id=assigned.cursor.topic_id,
            queue=place.queue,
            epoch=assigned.epoch,
            resets=assigned.resets,
            offset=message.offset,
            attempt=message.attempt,
            give_up=give_up,
        )
        try:
            await self._move(request, assigned)
        except OffsetTooLowError as error:  # it is kept no longer
            log.warning("message %s is not moved: %s", message.id, error)
        except ConsumerFencedError as error:  # it is another member's, or its topic was deleted
            log.warning("message %s is not moved: %s", message.id, error)
            self._drop(assigned)
            self._changed.set()
            return
        self.finish([message])

    async def _move(self, request: consumer_group_pb2.MoveRequest, assigned: AssignedQueue) -> None:
        """Raises ConsumerFencedError where the message is nobody's any more, or another LedgerError."""

        async def move() -> None:
            await self._client.call(assigned.shard, lambda stub, seconds: stub.Move(request, timeout=seconds))

        try:
            await move()
        except UnknownTopicError as error:
            topic = self._client.routes.table.topics.get(assigned.place.topic)
            if topic is None or topic.topic_id != assigned.cursor.topic_id:
                raise ConsumerFencedError(f"Topic {assigned.place.topic!r} was deleted.") from error
            # Its shard came after the topics that messages are moved to: they have no queues there yet.
            await prepare_retries(self._client, self._settings.consumer_group)
            await move()

    # -- who fetches

    def _restart(self, assigned: AssignedQueue) -> None:
        """Its cursor is not where it was."""
        self._fetchers.restart(assigned.shard)
        self._changed.set()  # what is to go elsewhere may have nothing in hand any more


def _is_same(owned: Assignment, assigned: AssignedQueue) -> bool:
    """Whether that is what is held."""
    return owned.topic_id == assigned.cursor.topic_id and owned.epoch in (0, assigned.epoch)


async def prepare_retries(client: ClusterClient, consumer_group: str) -> str:
    """The name of the topic that messages of this consumer group are moved to; it is made where it is missing."""
    request = consumer_group_pb2.PrepareRetriesRequest(consumer_group=consumer_group)
    await client.call(TOPICS_SHARD, lambda stub, seconds: stub.PrepareRetries(request, timeout=seconds))
    return retry_topic(consumer_group)

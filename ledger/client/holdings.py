"""The queues that are this member's: claimed when they come, acknowledged while they are here, released when they go.

    view ──> claim ──> Holding + cursor in a fetcher ──> acknowledge ──> release, or another epoch: dropped

The one idea: two places have a say. The coordinator says which queues are this member's; the queue's own group says
where it begins, and whether what was done with it still counts. Where either says no, the queue is dropped here, with
all that is in hand of it: others get that once more.

It must not know who reads the messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.client.cluster_client import ClusterClient
from ledger.client.cursor import Cursor
from ledger.client.fetcher import Fetcher, FetchSettings
from ledger.client.group_member import GroupMember, Ownership, View
from ledger.client.holding import Holding
from ledger.client.offsets import in_ms, offsets_for_times
from ledger.client.records import Message, TopicQueue
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST
from ledger.errors import ClosedError, ConsumerFencedError, LedgerError, OffsetTooLowError, from_wire
from ledger.retries import retry_topic
from ledger.topics import TOPICS_GROUP, is_system_topic
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledger.group")

GroupStart = Literal["earliest", "latest"] | datetime
MAX_IN_HAND, MAX_SPAN = 1_000, 2_000
"""Of one queue: messages that are handed out and not finished, and how far apart they may be."""
_CLAIMS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class HoldingSettings:
    consumer_group: str
    start: GroupStart
    tags: Collection[str] | None
    check_crcs: bool
    interval_s: float
    """Between acknowledgements."""
    release_s: float
    """So long messages in hand keep a queue that is to go elsewhere."""


class Holdings:
    """`on_news` is called after every change that a waiting reader should look at."""

    def __init__(
        self,
        client: ClusterClient,
        member: GroupMember,
        settings: HoldingSettings,
        fetching: FetchSettings,
        on_news: Callable[[], None],
    ) -> None:
        self._client = client
        self._member = member
        self._settings = settings
        self._fetching = fetching
        self._on_news = on_news
        self._view: View = {}
        self._by_place: dict[TopicQueue, Holding] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._changed = asyncio.Event()
        self.losses = 0
        """How often a queue has gone elsewhere."""

    def __iter__(self) -> Iterator[Holding]:
        """Beginning with another one each time: the first ones may get everything."""
        for first in list(self._by_place)[:1]:
            self._by_place[first] = self._by_place.pop(first)
        return iter(list(self._by_place.values()))

    def get(self, place: TopicQueue) -> Holding | None:
        return self._by_place.get(place)

    def places(self) -> list[TopicQueue]:
        return sorted(self._by_place)

    def seen(self, view: View) -> None:
        """The coordinator says that these are this member's."""
        self._view = view
        self._changed.set()

    def finish(self, messages: Iterable[Message]) -> None:
        """These are consumed. Where their queue has gone elsewhere it does not count."""
        holding = None
        for message in messages:
            if holding is None or message.queue != holding.cursor.queue or message.topic != holding.cursor.topic:
                holding = self._by_place.get(TopicQueue(message.topic, message.queue))
            if holding is not None:
                holding.finish(message.offset)
                if holding.is_leaving and holding.is_finished:
                    self._changed.set()

    def made_room(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.made_room()

    def trouble(self) -> LedgerError | None:
        """What stands in the way of reading on."""
        errors = [holding.cursor.error for holding in self._by_place.values() if not holding.cursor.ready]
        errors += [fetcher.trouble for fetcher in self._fetchers.values()]
        return next((error for error in errors if error is not None), None)

    async def close(self) -> None:
        for fetcher in self._fetchers.values():
            await fetcher.close()

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
        for place, holding in list(self._by_place.items()):
            owned = self._view.get(place)
            if owned is None or owned.epoch != holding.epoch:
                self._drop(holding)

    def _drop(self, holding: Holding) -> None:
        if self._by_place.get(holding.place) is holding:
            del self._by_place[holding.place]
            self.losses += 1
            self._fetcher(self._group_of(holding.place)).remove(holding.cursor)

    async def _release(self) -> None:
        """Of the queues that are to go elsewhere, those of which nothing is in hand, or has been for too long."""
        view = self._view
        done = [holding for place, holding in self._by_place.items() if self._lets_go(holding, view[place])]
        unclaimed = [
            (place, owned.epoch) for place, owned in view.items() if owned.is_leaving and place not in self._by_place
        ]
        if done or unclaimed:
            await self.acknowledge(done)
            await self._member.release([*((holding.place, holding.epoch) for holding in done), *unclaimed])
            for holding in done:
                self._drop(holding)

    def _lets_go(self, holding: Holding, owned: Ownership) -> bool:
        now = asyncio.get_running_loop().time()
        if not owned.is_leaving:
            holding.leaves_by = None
            return False
        if holding.leaves_by is None:
            holding.leaves_by = now + self._settings.release_s
            asyncio.get_running_loop().call_at(holding.leaves_by, self._changed.set)
        return holding.is_finished or now >= holding.leaves_by

    async def _claim(self) -> None:
        view = self._view
        new = [place for place, owned in view.items() if not owned.is_leaving and place not in self._by_place]
        for group, places in self._by_group(sorted(new)):
            for first in range(0, len(places), _CLAIMS_AT_ONCE):
                some = places[first : first + _CLAIMS_AT_ONCE]
                await self._claim_some(group, {place: view[place] for place in some})

    async def _claim_some(self, group: int, new: Mapping[TopicQueue, Ownership]) -> None:
        starts = await self._starts(list(new))
        request = consumer_group_pb2.ClaimRequest(group=group, consumer_group=self._settings.consumer_group)
        for place, owned in new.items():
            topic_id = self._client.routes.table.topics[place.topic].topic_id
            request.queues.add(topic_id=topic_id, queue=place.queue, epoch=owned.epoch, start_offset=starts[place])
        response = await self._client.call(group, lambda stub, seconds: stub.Claim(request, timeout=seconds))
        for (place, owned), claim, progress in zip(new.items(), request.queues, response.queues, strict=True):
            if progress.HasField("error"):  # another member has it: the coordinator will say so
                log.info("queue %d of %s is not claimed: %s", place.queue, place.topic, progress.error.message)
                continue
            cursor = Cursor(
                place.topic,
                claim.topic_id,
                place.queue,
                offset=progress.offset,
                tags=self._settings.tags,
                check_crcs=self._settings.check_crcs,
            )
            self._by_place[place] = Holding(cursor, owned.epoch, progress.settled, most=MAX_IN_HAND, span=MAX_SPAN)
        self._fetcher(group).add(self._by_place[place].cursor for place in new if place in self._by_place)

    async def _starts(self, places: list[TopicQueue]) -> Mapping[TopicQueue, int]:
        """Where the consumer group begins with these, if it has not begun."""
        start = self._settings.start
        own = {place: AT_THE_FIRST for place in places if is_system_topic(place.topic)}
        others = [place for place in places if place not in own]
        if isinstance(start, datetime):
            return own | await offsets_for_times(self._client, dict.fromkeys(others, in_ms(start)))
        return own | dict.fromkeys(others, AT_THE_FIRST if start == "earliest" else BEHIND_THE_LAST)

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

    async def acknowledge(self, holdings: Iterable[Holding]) -> None:
        """Tell what is finished of these; returns when that is committed. Raises LedgerError where it cannot be told;
        queues that have gone elsewhere are dropped."""
        due = {
            holding.place: (holding, holding.finished_up_to)
            for holding in holdings
            if holding.finished_up_to > holding.acknowledged
        }
        for group, places in self._by_group(due):
            await self._acknowledge_some(group, [due[place] for place in places])

    async def _acknowledge_some(self, group: int, due: list[tuple[Holding, int]]) -> None:
        request = consumer_group_pb2.AcknowledgeRequest(group=group, consumer_group=self._settings.consumer_group)
        for holding, offset in due:
            request.queues.add(
                topic_id=holding.cursor.topic_id, queue=holding.cursor.queue, epoch=holding.epoch, offset=offset
            )

        response = await self._client.call(group, lambda stub, seconds: stub.Acknowledge(request, timeout=seconds))
        for (holding, offset), progress in zip(due, response.queues, strict=True):
            if not progress.HasField("error"):
                holding.acknowledged = max(holding.acknowledged, offset)
                continue
            error = from_wire(progress.error)
            log.warning("queue %d of %s: %s", holding.place.queue, holding.place.topic, error)
            if isinstance(error, ConsumerFencedError):
                self._drop(holding)
                self._changed.set()  # where it is this member's still, it is claimed again

    async def move(self, message: Message, *, give_up: bool) -> None:
        """To be handed out again later, or to the dead letters. Where the queue has gone elsewhere, the message has
        too. Raises LedgerError."""
        place = TopicQueue(message.topic, message.queue)
        holding = self._by_place.get(place)
        if holding is None:
            return
        group = self._group_of(place)
        request = consumer_group_pb2.MoveRequest(
            group=group,
            consumer_group=self._settings.consumer_group,
            topic_id=holding.cursor.topic_id,
            queue=place.queue,
            epoch=holding.epoch,
            offset=message.offset,
            attempt=message.attempt,
            give_up=give_up,
        )
        try:
            await self._client.call(group, lambda stub, seconds: stub.Move(request, timeout=seconds))
        except (ConsumerFencedError, OffsetTooLowError) as error:  # it is another member's, or kept no longer
            log.warning("message %s is not moved: %s", message.id, error)
            if isinstance(error, ConsumerFencedError):
                self._drop(holding)
                self._changed.set()
                return
        self.finish([message])

    # -- their groups

    def _by_group(self, places: Iterable[TopicQueue]) -> list[tuple[int, list[TopicQueue]]]:
        groups: dict[int, list[TopicQueue]] = {}
        for place in places:
            groups.setdefault(self._group_of(place), []).append(place)
        return sorted(groups.items())

    def _group_of(self, place: TopicQueue) -> int:
        return self._client.routes.table.topics[place.topic].groups[place.queue]

    def _fetcher(self, group: int) -> Fetcher:
        if group not in self._fetchers:
            self._fetchers[group] = Fetcher(self._client, group, (), self._fetching, self._on_news)
        return self._fetchers[group]


async def prepare_retries(client: ClusterClient, consumer_group: str) -> str:
    """The name of the topic that messages of this consumer group are moved to; it is made where it is missing."""
    request = consumer_group_pb2.PrepareRetriesRequest(consumer_group=consumer_group)
    await client.call(TOPICS_GROUP, lambda stub, seconds: stub.PrepareRetries(request, timeout=seconds))
    return retry_topic(consumer_group)

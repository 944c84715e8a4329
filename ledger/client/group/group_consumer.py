"""The asyncio consumer of a consumer group: queues are shared out among the members, and offsets kept by the cluster.

    view ──> claim ──> fetch ──> hand out ──> finish ──> acknowledge (every second, and before a queue is let go)
                                                  └──> release, where the queue is to go elsewhere

The one idea: every message is handed out at least once, and normally once: a queue begins where the cluster was told
that all before is finished, and goes to another member only when this one has finished, or does not answer.

It must not know who gets which queue (`group_member`; in a broadcast everybody gets all: `all_queues`), nor how queues
come and go (`holdings`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterable
from datetime import datetime

from ledger.client.admin.offsets import QueueTimes, checked_time, in_ms, offsets_for_times
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.lifetime import AsyncLifetime
from ledger.client.consumer.consumer import MAX_FETCH_BYTES, MAX_WAIT_MS
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.tags import wanted_tags
from ledger.client.group.all_queues import AllQueues
from ledger.client.group.assigned_queue import AssignedQueue
from ledger.client.group.assigned_queues import AssignedQueues, prepare_retries
from ledger.client.group.claiming import AssignmentSettings, GroupStart
from ledger.client.group.group_membership import AssignmentSource, GroupMember, MemberSettings
from ledger.client.records import Message, TopicQueue
from ledger.consumer_groups import broadcast_name, validate_group_name, validate_member
from ledger.errors import ClosedError, InvalidArgumentError, LedgerError
from ledger.hashing import tag_hash
from ledger.retries import DELAYS_S

log = logging.getLogger("ledgermq.client.group_consumer")


class AsyncGroupConsumer(AsyncLifetime):
    """Consumes topics together with the other members of `group`; with `broadcast`, all of them alone.

    Queues that the topics are given later, and a topic that is made again after it was deleted, are taken up within
    about 30 s. What is in hand of a topic that is deleted is gone, and the others go on; when none is left, reading
    raises UnknownTopicError until one is there again.

    group                     the consumer group: 1 to 63 of the characters A-Z a-z 0-9 _ . -
    bootstrap_servers         "host:port,host:port", or a list of addresses
    start                     where the consumer group begins with a queue that it has never consumed: "earliest",
                              "latest", or a datetime with a time zone
    tags                      "paid || refunded": only messages with one of these tags; None or "*": all
    strategy                  how queues are assigned: average, circle, consistent_hash, machine_room,
                              nearest_machine_room, by_configuration; the same for all members
    configured                with by_configuration: the (topic, queue) pairs that this member consumes. Other queues of
                              these topics nobody gets
    room                      the machine room that this member runs in
    auto_acknowledge          a message counts as finished when the next ones are asked for; otherwise `finish` says so
    acknowledge_interval_ms   how often the cluster is told what is finished
    max_attempts              so often a message is handed out before `reconsume_later` gives it up; 1: no retries, and
                              no topics for them
    session_timeout_ms        so long nothing may be heard of this member before its queues go to others
    release_timeout_ms        so long messages in hand keep a queue here that is to go elsewhere; what is not finished
                              by then is handed out there once more
    broadcast, instance       this consumer gets all messages, as every other one does; how far it has come is kept by
                              the cluster for this instance of the consumer group, a name such as the host's, which no
                              other consumer may have at the same time. There are no members, and so no assignment; and
                              no retries: a message is finished, or handed out again when the consumer starts anew
    max_bytes, max_wait_ms, check_crcs, request_timeout_ms, retry_backoff_ms: as for AsyncConsumer
    """

    def __init__(
        self,
        *topics: str,
        group: str,
        bootstrap_servers: str | list[str] | tuple[str, ...],
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        strategy: str = "average",
        configured: Iterable[tuple[str, int]] = (),
        room: str = "",
        auto_acknowledge: bool = True,
        acknowledge_interval_ms: int = 1_000,
        max_attempts: int = len(DELAYS_S) + 1,
        broadcast: bool = False,
        instance: str | None = None,
        session_timeout_ms: int = 10_000,
        release_timeout_ms: int = 30_000,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        check_crcs: bool = True,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        _environment: Environment = PROCESS,
    ) -> None:
        validate_group_name(group)
        if broadcast != (instance is not None):
            raise InvalidArgumentError("A broadcast needs an instance for each of its consumers, and nobody else does.")
        if broadcast and (strategy != "average" or room or configured):
            raise InvalidArgumentError("In a broadcast everybody gets all queues: leave out how they are assigned.")
        if not topics:
            raise InvalidArgumentError("A consumer needs at least one topic.")
        if not (isinstance(start, datetime) or start in ("earliest", "latest")):
            raise InvalidArgumentError(f'start is "{start}": it must be "earliest", "latest" or a datetime.')
        if isinstance(start, datetime):
            checked_time(in_ms(start))
        if not 1 <= max_bytes <= MAX_FETCH_BYTES or not 0 <= max_wait_ms <= MAX_WAIT_MS:
            raise InvalidArgumentError(
                f"max_bytes is {max_bytes} and max_wait_ms is {max_wait_ms}: they must be 1 to {MAX_FETCH_BYTES} and "
                f"0 to {MAX_WAIT_MS}."
            )
        if acknowledge_interval_ms < 1 or release_timeout_ms < 0 or max_attempts < 1:
            raise InvalidArgumentError(
                f"acknowledge_interval_ms is {acknowledge_interval_ms}, release_timeout_ms {release_timeout_ms} and "
                f"max_attempts {max_attempts}: they must be at least 1, 0 and 1."
            )
        client_id = client_id or f"ledgermq-{os.getpid()}"
        self._broadcast = broadcast
        self._settings = MemberSettings(
            group if instance is None else broadcast_name(group, instance),
            f"{client_id}-{_environment.new_producer_id():016x}".replace(" ", "_"),
            client_id,
            strategy,
            room,
            session_timeout_ms,
            tuple(TopicQueue(*place) for place in configured),
        )
        validate_member(
            self._settings.member,
            client_id=client_id,
            strategy=strategy,
            room=room,
            session_timeout_ms=session_timeout_ms,
        )
        self._names = tuple(dict.fromkeys(topics))
        self._auto = auto_acknowledge
        self._max_attempts = 1 if broadcast else max_attempts
        tags = wanted_tags(tags)
        self._assigned = AssignmentSettings(
            self._settings.consumer_group,
            start,
            tags,
            check_crcs,
            acknowledge_interval_ms / 1000,
            release_timeout_ms / 1000,
        )
        self._fetching = FetchSettings(
            node=None,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            prefetch_bytes=2 * max_bytes,
            tag_hashes=tuple(sorted(map(tag_hash, tags or ()))),
            skips_dropped=True,
        )
        self._client = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=rng or random.Random(),
            environment=_environment,
        )
        # By the last read, where that alone says what is finished.
        self._handed_out: list[Message] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect and join. Raises UnknownTopicError, GroupConflictError, GroupFullError, UnavailableError."""
        await self._client.start()
        self._news = asyncio.Event()
        try:
            self._member = await self._make_member()
            self._assigned_queues = AssignedQueues(
                self._client, self._member, self._assigned, self._fetching, self._news.set
            )
            await self._member.join()
        except BaseException:
            await self._client.close()
            raise
        self._tasks = [
            asyncio.create_task(work, name=f"{name} of consumer group {self._settings.consumer_group}")
            for name, work in (
                ("attendance", self._member.run(self._assigned_queues.seen)),
                ("queues", self._assigned_queues.run()),
                ("acknowledgements", self._assigned_queues.keep_acknowledging()),
            )
        ]

    async def _make_member(self) -> AssignmentSource:
        names = self._names
        if self._broadcast:
            return AllQueues(self._client, names)
        if self._max_attempts > 1:
            names = (*names, await prepare_retries(self._client, self._settings.consumer_group))
        return GroupMember(self._client, self._settings, names)

    async def stop(self) -> None:
        """Acknowledge what is finished, and leave. Messages in hand are handed out elsewhere once more."""
        if not self._client.started:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._assigned_queues.close()
        try:
            await self.acknowledge()
        except LedgerError as error:
            log.warning("what was finished last is not acknowledged, and will be handed out again: %s", error)
        await self._member.leave()
        self._client.refuse_calls()
        self._news.set()
        await self._client.close()

    @property
    def closed(self) -> bool:
        """Whether it has been stopped."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._settings.member

    # -- reading

    def __aiter__(self) -> AsyncGroupConsumer:
        return self

    async def __anext__(self) -> Message:
        """The next message, however long that takes. When the consumer has been stopped, iteration is over."""
        try:
            while True:
                if messages := await self.getmany(1):
                    return messages[0]
        except ClosedError:
            if self.closed:
                raise StopAsyncIteration from None
            raise

    async def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message]:
        """Up to so many messages: what is there, or, when nothing is, what comes first within `timeout_ms` (None:
        however long that takes). Messages of one queue are in order."""
        if max_messages < 1:
            raise InvalidArgumentError(f"max_messages is {max_messages}: it must be at least 1.")
        if self._auto:
            self.finish(*self._handed_out)
            self._handed_out = []
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            self._client.check_open()
            self._news.clear()
            if messages := self._take(max_messages):
                if self._auto:
                    self._handed_out = messages
                return messages
            if (trouble := self._assigned_queues.trouble()) is not None:
                raise trouble
            remaining = None if deadline is None else deadline - loop.time()
            if remaining is not None and remaining <= 0:
                return []
            try:
                async with asyncio.timeout(remaining):
                    await self._news.wait()
            except TimeoutError:
                return []

    def finish(self, *messages: Message) -> None:
        """These are consumed; the cluster is told soon. Of a queue that has gone elsewhere it does not count."""
        self._assigned_queues.finish(messages)
        self._news.set()  # there may be room for more

    def finish_held(self, messages: Iterable[Message]) -> None:
        """As `finish`, for whoever has the very objects that were handed out: those from before a reset of their
        queue's offset do not count, since they are to be consumed once more."""
        self._assigned_queues.finish(messages, only_held=True)
        self._news.set()

    def holds(self, message: Message) -> bool:
        """Whether the message, the very one that was handed out and no copy of it, is in this member's hand still: it
        is not finished, was not handed out anew, and its queue has not gone elsewhere."""
        assigned = self._assigned_queues.get(TopicQueue(message.topic, message.queue))
        return assigned is not None and assigned.has_in_hand(message)

    @property
    def losses(self) -> int:
        """How often a queue has gone elsewhere: as long as it is the same, this member holds what it was handed."""
        return self._assigned_queues.losses

    async def reconsume_later(self, message: Message) -> None:
        """It could not be consumed: it is handed out again, to any member, after a while that grows with each attempt;
        after the last attempt it is given up. Returns when that is committed, or the queue has gone elsewhere. Raises
        InvalidArgumentError in a broadcast, and with max_attempts = 1."""
        await self._move(message, give_up=message.attempt >= self._max_attempts)

    async def give_up(self, message: Message) -> None:
        """It will never be consumed: it goes to the dead letters, the topic %DLQ% with the consumer group's name."""
        await self._move(message, give_up=True)

    async def _move(self, message: Message, *, give_up: bool) -> None:
        self._client.check_open()
        if self._max_attempts == 1:
            raise InvalidArgumentError("In a broadcast, or with max_attempts = 1, no message is handed out again.")
        await self._assigned_queues.move(message, give_up=give_up)
        self._news.set()

    async def acknowledge(self) -> None:
        """Tell the cluster what is finished; returns when that is committed. Raises LedgerError where it cannot be
        told; queues that have gone elsewhere are passed over."""
        await self._assigned_queues.acknowledge(self._assigned_queues)

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member consumes at the moment; none before it has started."""
        return self._assigned_queues.places() if self._tasks else []

    def position(self, topic: str, queue: int) -> int:
        """The offset of the next message that will be handed out. Raises InvalidArgumentError, here and below, where
        the queue is not this member's."""
        return self._held(topic, queue).cursor.position

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        """Go on at `offset` of this queue. What lies before it counts as finished; what lies behind it is handed out,
        again where it was before. What the cluster was told to be finished stays so: should the queue go to another
        member before this one has come there again, that one goes on there (`group reset` moves the consumer group
        itself)."""
        assigned = self._held(topic, queue)
        if offset < 0:
            raise InvalidArgumentError(f"Cannot seek to {offset}: an offset counts from 0.")
        self._handed_out = [one for one in self._handed_out if (one.topic, one.queue) != (topic, queue)]
        self._assigned_queues.seek(assigned, offset)

    def pause(self, *places: tuple[str, int]) -> None:
        """Hand out nothing of these queues, given as (topic, queue), until resume(); of all that this member has at the
        moment, where none is given. A queue that goes elsewhere and comes back is paused no more."""
        for assigned in self._chosen(places):
            self._assigned_queues.pause(assigned)

    def resume(self, *places: tuple[str, int]) -> None:
        """The opposite of pause()."""
        for assigned in self._chosen(places):
            self._assigned_queues.resume(assigned)

    def is_paused(self, topic: str, queue: int) -> bool:
        """Whether nothing is handed out of that queue. Of one that is not this member's: False."""
        assigned = self._assigned_queues.get(TopicQueue(topic, queue))
        return assigned is not None and assigned.cursor.paused

    @property
    def paused(self) -> list[TopicQueue]:
        """The queues of which nothing is handed out."""
        return sorted(assigned.place for assigned in self._assigned_queues if assigned.cursor.paused)

    async def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """For each queue, which need not be this member's, the offset of the first message that was appended at that
        time (ms since 1970) or later; the end offset where there is none yet. What to give to seek()."""
        self._client.check_open()
        return await offsets_for_times(self._client, times)

    def _chosen(self, places: Iterable[tuple[str, int]]) -> list[AssignedQueue]:
        self._client.check_open()
        return [self._held(*place) for place in places] or list(self._assigned_queues)

    def _held(self, topic: str, queue: int) -> AssignedQueue:
        self._client.check_open()
        assigned = self._assigned_queues.get(TopicQueue(topic, queue))
        if assigned is None:
            raise InvalidArgumentError(f'Queue {queue} of topic "{topic}" is not this member\'s at the moment.')
        return assigned

    def _take(self, count: int) -> list[Message]:
        """What is there, from queue after queue."""
        messages: list[Message] = []
        for assigned in self._assigned_queues:
            messages += assigned.take(count - len(messages))
            if len(messages) >= count:
                break
        self._assigned_queues.made_room()
        return messages

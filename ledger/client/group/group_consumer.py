"""The asyncio consumer of a consumer group: the members share the queues, and the cluster stores the group's offsets.

    assign        the coordinator assigns a queue to this member
    claim         the member claims the queue, and fences its earlier owners
    fetch         a fetcher fetches messages of the queue
    hand out      the program reads messages of the queue
    finish        the program has consumed a message
    acknowledge   the member acknowledges the finished messages, every second and before a release
    release       the member releases the queue, if the queue moves to another member

Every message is handed out at least once, and usually exactly once. A new owner continues a queue at the acknowledged
offset. When a queue is assigned to another member, the present owner first finishes the messages that were handed out,
for at most `release_timeout_ms`. If the coordinator received no heartbeat from the owner for longer than the session
timeout, the queue goes to its new owner without waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from ledger.client.admin.offsets import QueueTimes, checked_time, in_ms, offsets_for_times
from ledger.client.background import spawn
from ledger.client.checked_arguments import (
    checked_client_id,
    checked_deserializer,
    checked_flag,
    checked_list,
    checked_offset,
    checked_pair,
    checked_pairs,
    checked_place,
    checked_rng,
    shown,
)
from ledger.client.checked_numbers import checked_number, checked_timeout, checked_wait, checked_whole
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.consumer.consumer import MAX_FETCH_BYTES, MAX_WAIT_MS
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.tags import wanted_tags
from ledger.client.group.all_queues import AllQueues
from ledger.client.group.assigned_queue import AssignedQueue, QueueRun, Unit
from ledger.client.group.assigned_queues import AssignedQueues, prepare_retries
from ledger.client.group.claiming import AssignmentSettings, GroupStart
from ledger.client.group.group_batch import GroupBatch, check_message, check_messages
from ledger.client.group.group_membership import AssignmentSource, GroupMember, MemberSettings
from ledger.client.group.rebalance_callbacks import RebalanceCallback, RebalanceCallbacks, checked_rebalance_callback
from ledger.client.records import Message, Received, TopicQueue
from ledger.consumer_groups import MAX_SESSION_MS, MIN_SESSION_MS, broadcast_name, validate_group_name, validate_member
from ledger.errors import ClosedError, InvalidArgumentError, LedgerError
from ledger.hashing import tag_hash
from ledger.topics import topic_names

U = TypeVar("U", Message[Any], GroupBatch, QueueRun)

log = logging.getLogger("ledgermq.client.group_consumer")


class AsyncGroupConsumer(AsyncLifetime, Generic[Received]):
    """An asyncio client that consumes topics together with the other members of `group`. With `broadcast`, each
    consumer receives all messages.

    The consumer finds new queues of its topics within about 30 s, and also a topic that was deleted and created again.
    If a topic is deleted, its unfinished messages are lost, and the consumer continues with its other topics. If all
    topics are deleted, reading raises UnknownTopicError until one of the topics exists again.

    group                     the consumer group: 1 to 63 of the characters A-Z a-z 0-9 _ . -
    bootstrap_servers         "host:port,host:port" or a list of addresses; one reachable address is enough
    start                     where the group begins with a queue that it has never consumed: "earliest" (default),
                              "latest", or a datetime with a time zone
    tags                      read only messages with one of these tags, such as "paid || refunded"; None (default) or
                              "*": all messages
    strategy                  how queues are assigned: average (default), circle, consistent_hash, machine_room,
                              nearest_machine_room or by_configuration; equal for all members
    configured                with by_configuration: the (topic, queue) pairs that this member consumes (default none).
                              A queue that no member names is not consumed
    room                      the machine room of this member (default "")
    auto_acknowledge          True (default): a message is finished when the program asks for the next messages, or
                              calls `finish`. So the message at which a loop ends by `break` is delivered again: end
                              loops with `stop_reading`. False: the program calls `finish`
    acknowledge_interval_ms   how often the member acknowledges finished messages (default 1,000)
    max_attempts              how many times a message is delivered before it goes to the dead letters (default 17); 1:
                              no retries, and this member does not read the retry topic
    session_timeout_ms        how long this member may be silent before its queues go to other members (default 10,000)
    release_timeout_ms        how long messages in hand may delay the release of their queue (default 30,000); messages
                              that are unfinished by then are handed out again by the next owner
    broadcast                 True: this consumer receives every message, independently of others (default False). There
                              are no members, no assignment and no retries: an unfinished message is handed out again
                              when the consumer starts again
    deserializer              a function such as json.loads, which makes the `value` of each message from its bytes
                              (default None). If it fails, reading raises DeserializationError until seek() moves past
                              the message
    on_assigned               called with the queues that this member was assigned, before their messages are handed
                              out: a function or a coroutine function of a list[TopicQueue] (default None). The member
                              waits for it, so it may seek; meanwhile the member takes over and releases no queues
    on_revoked                called with the queues that this member is about to release: all messages of them that
                              were handed out are finished, or `release_timeout_ms` has passed (default None)
    on_lost                   called with the queues that this member lost without releasing them, so another member
                              may own them already (default None)
    instance                  with broadcast: the name under which the cluster keeps this consumer's offsets, such as
                              the host name. Two running consumers must not share it
    max_bytes, max_wait_ms, check_crcs, client_id, request_timeout_ms, retry_backoff_ms, rng, and the security settings:
    as for AsyncConsumer
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        strategy: str = "average",
        configured: Iterable[tuple[str, int]] = (),
        room: str = "",
        auto_acknowledge: bool = True,
        acknowledge_interval_ms: int = 1_000,
        max_attempts: int = 17,
        broadcast: bool = False,
        instance: str | None = None,
        deserializer: Callable[[bytes], Received] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        session_timeout_ms: int = 10_000,
        release_timeout_ms: int = 30_000,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        check_crcs: bool = True,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        servers, environment = cluster_of(self._environment, bootstrap_servers, security_in(locals()))
        validate_group_name(group)
        if broadcast != (instance is not None):
            raise InvalidArgumentError(
                "`instance` must be set if `broadcast` is True, and only then: it names this consumer of the broadcast."
            )
        queues = checked_pairs("configured", configured)
        if broadcast and (strategy != "average" or room or queues):
            raise InvalidArgumentError(
                "In a broadcast every consumer reads all queues: leave out strategy, room and configured."
            )
        max_attempts = checked_whole("max_attempts", max_attempts, 1)
        client_id = checked_client_id(client_id) or f"ledgermq-{os.getpid()}"
        self._broadcast = broadcast
        self._settings = MemberSettings(
            group if instance is None else broadcast_name(group, instance),
            f"{client_id}-{environment.new_producer_id():016x}".replace(" ", "_"),
            client_id,
            strategy,
            room,
            checked_whole("session_timeout_ms", session_timeout_ms, MIN_SESSION_MS, MAX_SESSION_MS),
            tuple(queues),
        )
        validate_member(
            self._settings.member,
            client_id=client_id,
            strategy=strategy,
            room=room,
            session_timeout_ms=session_timeout_ms,
        )
        self._names = topic_names(topics)
        self._auto = checked_flag("auto_acknowledge", auto_acknowledge)
        self._max_attempts = 1 if broadcast else max_attempts
        tags = wanted_tags(tags)
        self._assigned = AssignmentSettings(
            self._settings.consumer_group,
            _checked_start(start),
            tags,
            checked_flag("check_crcs", check_crcs),
            checked_number("acknowledge_interval_ms", acknowledge_interval_ms, 1) / 1000,
            checked_number("release_timeout_ms", release_timeout_ms, 0) / 1000,
            checked_deserializer(deserializer),
        )
        self._fetching = FetchSettings(
            node=None,
            max_bytes=checked_whole("max_bytes", max_bytes, 1, MAX_FETCH_BYTES),
            max_wait_ms=checked_whole("max_wait_ms", max_wait_ms, 0, MAX_WAIT_MS),
            tag_hashes=tuple(sorted(map(tag_hash, tags or ()))),
            skips_dropped=True,
        )
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=checked_rng(rng),
            environment=environment,
        )
        self._callbacks = RebalanceCallbacks(
            self._settings.consumer_group,
            self._names,
            checked_rebalance_callback("on_assigned", on_assigned),
            checked_rebalance_callback("on_revoked", on_revoked),
            checked_rebalance_callback("on_lost", on_lost),
        )
        # The messages of the last read. With auto_acknowledge the next read finishes them.
        self._handed_out: list[Unit] = []
        # The task that made the last read. While another task stops the consumer, this task may still be consuming.
        self._reader: asyncio.Task[Any] | None = None
        self._is_ending = False
        # Not None: a task stops the consumer; set when it has stopped.
        self._stopped: asyncio.Event | None = None
        # The end of the consumer, which goes on if the caller of `stop` is cancelled.
        self._leaving: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect and join the consumer group.

        Raises UnknownTopicError, GroupConflictError, GroupFullError or UnavailableError.
        """
        self._client.check_unstarted(was_stopped=self._stopped is not None)
        await self._client.start()
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        try:
            self._member = await self._make_member()
            self._assigned_queues = AssignedQueues(
                self._client, self._member, self._assigned, self._fetching, self._news.set, self._callbacks
            )
            await self._member.join()
        except BaseException:
            await self._client.close()
            raise
        queues = self._assigned_queues
        self._tasks = [
            spawn(work, f"{name} of consumer group {self._settings.consumer_group}", queues.failed)
            for name, work in (
                ("attendance", self._member.run(queues.seen, lambda: queues.unacknowledged)),
                ("queues", queues.run()),
                ("acknowledgements", queues.keep_acknowledging()),
            )
        ]

    async def _make_member(self) -> AssignmentSource:
        names = self._names
        if self._broadcast:
            return AllQueues(self._client, names)
        if self._max_attempts > 1:
            names = (*names, await prepare_retries(self._client, self._settings.consumer_group))
        return GroupMember(self._client, self._settings, names)

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and getmany() raises ClosedError.

        The consumer stays a member until `stop`, so that the program can finish what it has. See also
        `ledgermq.stop_on_signal`.
        """
        self._is_ending = True
        if self._tasks:
            self._news.set()

    async def stop(self, timeout_s: float | None = None) -> None:
        """Hand out no more messages, wait until the program has finished the messages in hand, acknowledge the finished
        messages, and leave the group. The next owner of each queue hands out unfinished messages again.

            timeout_s   how long stop() waits for messages in hand. None (default): if another task reads the messages,
                        as long as `release_timeout_ms` allows; if this task reads them, not at all, because it cannot
                        finish them meanwhile

        With `auto_acknowledge`, a message is finished when the program asks for the next message. `timeout_s` does not
        limit the last acknowledgement, which takes up to `request_timeout_ms` while no leader answers. If the caller is
        cancelled, for example by `asyncio.wait_for`, the consumer leaves the group without waiting for messages in
        hand. The call is idempotent.
        """
        timeout_s = None if timeout_s is None else checked_wait("timeout_s", timeout_s)
        self._client.check_loop()
        if self._stopped is None and not self._client.started:
            return
        self.stop_reading()
        if self._stopped is not None:
            if asyncio.current_task() is self._reader:
                self._reader = None  # nothing more comes from it
                self._progress.set()
            await self._stopped.wait()
            return
        self._stopped = asyncio.Event()
        try:
            await self._wait_for_reader(timeout_s)
        finally:
            # A member that stays in the group and does not read would keep its queues from the others.
            self._leaving = asyncio.create_task(self._leave(self._stopped), name="end of a group consumer")
            await asyncio.shield(self._leaving)

    async def close(self, timeout_s: float | None = None) -> None:
        """Do the same as `stop`, under the name that other libraries use."""
        await self.stop(timeout_s)

    async def aclose(self, timeout_s: float | None = None) -> None:
        """Do the same as `stop`, under the name that `contextlib.aclosing` uses."""
        await self.stop(timeout_s)

    async def _wait_for_reader(self, timeout_s: float | None) -> None:
        """Wait until the messages that were handed out are finished, for at most `timeout_s`."""
        stopper, waits_anyway = asyncio.current_task(), timeout_s is not None

        def is_busy() -> bool:
            if not (self._handed_out if self._auto else self._assigned_queues.has_in_hand):
                return False
            return waits_anyway or not (self._reader in (None, stopper) or self._reader.done())

        if self._reader is not None:
            self._reader.add_done_callback(lambda _: self._progress.set())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._assigned.release_s if timeout_s is None else timeout_s):
                while is_busy():
                    self._progress.clear()
                    await self._progress.wait()

    async def _leave(self, stopped: asyncio.Event) -> None:
        try:
            await self._leave_group()
        finally:
            stopped.set()

    async def _leave_group(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._assigned_queues.revoke_all()
        await self._assigned_queues.close()
        try:
            await self.acknowledge()
        except LedgerError as error:
            log.warning(
                "consumer group %s: the last finished messages could not be acknowledged, so the next owner hands them "
                "out again: %s",
                self._settings.consumer_group,
                error,
            )
        await self._member.leave()
        self._client.refuse_calls()
        self._news.set()
        await self._client.close()

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._settings.member

    # -- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[Received]:
        """Return the next message, and wait for it without a time limit. The iteration ends when the consumer is
        stopped."""
        try:
            while True:
                if messages := await self.getmany(1):
                    return messages[0]
        except ClosedError:
            if self.closed or self._is_ending:
                raise StopAsyncIteration from None
            raise

    async def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message[Received]]:
        """Return up to `max_messages` messages that were fetched and not handed out yet.

        If there is no fetched message, wait for messages for up to `timeout_ms` milliseconds (None: without limit). If
        no message arrives before this timeout, return an empty list. Messages of one queue are in order.
        """
        most = checked_whole("max_messages", max_messages, 1)
        return cast("list[Message[Received]]", await self._read(lambda: self._take(most), timeout_ms))

    async def getbatches(self, timeout_ms: float | None = None) -> list[GroupBatch]:
        """Return fetched messages as columns: one GroupBatch for each batch of the log, at most 16 of one queue at a
        time. Wait as getmany() does.

        finish(batch) finishes all messages of a batch. With `auto_acknowledge`, the next read finishes them.
        reconsume_later() and give_up() take single messages of `batch.messages()`; the batch must still be finished.
        """
        return await self._read(self._take_batches, timeout_ms)

    async def _read(self, take: Callable[[], list[U]], timeout_ms: float | None) -> list[U]:
        """Finish what was handed out before, if the consumer does so, and return what `take` returns as soon as that is
        not empty. After `timeout_ms` milliseconds (None: without limit) return an empty list."""
        timeout_ms = checked_timeout(timeout_ms)
        if self._auto and self._handed_out:
            finished, self._handed_out = self._handed_out, []
            self.finish(*finished)
        self._reader = asyncio.current_task()
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            self._client.check_open()
            if self._is_ending:
                raise ClosedError("This consumer hands out no more messages, because it is being stopped.")
            if self._assigned_queues.defect is not None:
                raise self._assigned_queues.defect
            self._news.clear()
            if units := take():
                if self._auto:
                    self._handed_out = cast("list[Unit]", units[:])
                return units
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

    def fetch_again(self) -> None:
        """Fetch again from the queues whose last read raised an error, from the same offset. For example, an
        administrator has given back the right to subscribe to the topic.
        """
        self._assigned_queues.fetch_again()
        self._news.set()

    def finish(self, *messages: Message[Any] | GroupBatch) -> None:
        """Mark `messages` or batches as consumed, so that the member can acknowledge them. What belongs to a queue that
        the member lost is ignored. Raises InvalidArgumentError, and then marks none of them, if one of them is
        something else.
        """
        check_messages(messages)
        self._assigned_queues.finish(messages)
        self._has_progress()

    def finish_held(self, messages: Iterable[Message[Any] | GroupBatch]) -> None:
        """Mark `messages` as consumed. They must be the message objects that were handed out. Objects that were handed
        out before an administrator reset the offset of their queue are ignored, because their messages must be
        consumed again. Raises InvalidArgumentError, as `finish` does.
        """
        messages = checked_list("messages", messages, "messages of this consumer")
        check_messages(messages)
        self._assigned_queues.finish(messages, only_held=True)
        self._has_progress()

    async def _read_runs(self, max_messages: int) -> list[QueueRun]:
        """Do the same as getmany() for a push consumer, but return the messages of each queue as a run."""
        return await self._read(lambda: self._take_runs(max_messages), None)

    def _finish_next(self, run: QueueRun, count: int) -> None:
        """Do the same as finish_held() for the next `count` messages of a run."""
        self._assigned_queues.finish_next(run, count)
        self._has_progress()

    def _has_progress(self) -> None:
        self._news.set()  # there may be room for more
        self._progress.set()

    def holds(self, message: Message[Any] | GroupBatch) -> bool:
        """Return True if this message object was handed out, is not finished, and its queue still belongs to this
        member.

        The result is False if the message is finished or was handed out again, or if the member has lost its queue.
        For a copy of a message object the result is False.
        """
        check_messages([message])
        assigned = self._assigned_queues.get(TopicQueue(message.topic, message.queue))
        return assigned is not None and assigned.has_in_hand(message)

    @property
    def losses(self) -> int:
        """The number of times that this member has lost a queue. While `losses` does not change, the member still owns
        the queues of all messages that were handed out.
        """
        return self._assigned_queues.losses

    async def reconsume_later(self, message: Message[Any]) -> None:
        """Move the message to the retry topic, so that a member receives it again after a delay. The delay grows with
        each attempt.

        After the last attempt the message goes to the dead letters. The call returns when the move is committed, or
        when the member has lost the queue. Raises InvalidArgumentError in a broadcast.
        """
        check_message(message)
        await self._move(message, give_up=message.attempt >= self._max_attempts)

    async def give_up(self, message: Message[Any]) -> None:
        """Move the message to the dead letters: the topic with the name "%DLQ%" followed by the name of the
        consumer group."""
        check_message(message)
        await self._move(message, give_up=True)

    async def _move(self, message: Message[Any], *, give_up: bool) -> None:
        self._client.check_open()
        if self._broadcast:
            raise InvalidArgumentError(
                "A broadcast has no retry topic and no dead letters, so no message can be moved."
            )
        await self._assigned_queues.move(message, give_up=give_up)
        self._has_progress()

    async def acknowledge(self) -> None:
        """Acknowledge all finished messages, and return when the acknowledged offsets are committed.

        Nothing is acknowledged for queues that this member has lost. Raises LedgerError if the leader of a queue's
        shard cannot be reached; the offsets of the other shards are acknowledged nevertheless.
        """
        await self._assigned_queues.acknowledge(self._assigned_queues)

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member owns and has claimed, without those of the group's retry topic. The list is empty
        before start()."""
        places = self._assigned_queues.places() if self._tasks else []
        return [place for place in places if place.topic in self._names]

    async def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue and has claimed all queues that are assigned to it, and return
        its `assignment`. If `timeout_ms` milliseconds pass before (None: no limit), return an empty list.

        If the group has more members than queues, a member may stay without queues. Raises the same errors as
        getmany().
        """
        timeout_ms = checked_timeout(timeout_ms)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while True:
                    self._client.check_open()
                    if self._assigned_queues.defect is not None:
                        raise self._assigned_queues.defect
                    if self.assignment and self._assigned_queues.is_settled:
                        return self.assignment
                    if (trouble := self._assigned_queues.trouble()) is not None:
                        raise trouble
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            if isinstance(error, LedgerError):  # RequestTimeoutError is also a TimeoutError
                raise
        return []

    def position(self, topic: str, queue: int) -> int:
        """Return the offset of the next message that this member hands out from the queue. Raises InvalidArgumentError
        if this member does not own the queue.
        """
        return self._held(checked_place(topic, queue)).cursor.position

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continue to hand out messages of this queue at `offset`.

        Messages before `offset` count as finished. Messages from `offset` on are handed out, even if they were handed
        out before. A seek never lowers the acknowledged offset. If the queue moves to another member after a seek to a
        lower offset, the new owner starts at the acknowledged offset. The command `group reset` can lower the
        acknowledged offset of the group.
        """
        assigned = self._held(checked_place(topic, queue))
        offset = checked_offset(offset)
        self._handed_out = [one for one in self._handed_out if (one.topic, one.queue) != (topic, queue)]
        self._assigned_queues.seek(assigned, offset)

    def pause(self, *places: tuple[str, int]) -> None:
        """Stop handing out messages of the queues `places` until resume() is called. Each queue is given as (topic,
        queue).

        Without arguments all queues that this member owns now are paused. If a paused queue moves to another member
        and back, it is no longer paused. Raises InvalidArgumentError if this member does not own a queue.
        """
        for assigned in self._chosen(places):
            self._assigned_queues.pause(assigned)

    def resume(self, *places: tuple[str, int]) -> None:
        """Hand out messages of the paused queues `places` again; without arguments, of all paused queues."""
        for assigned in self._chosen(places):
            self._assigned_queues.resume(assigned)

    def is_paused(self, topic: str, queue: int) -> bool:
        """Return True if the queue is paused. If this member does not own the queue, return False."""
        return self._is_paused(checked_place(topic, queue))

    def _is_paused(self, place: TopicQueue) -> bool:
        """Do the same as `is_paused` for the queue of a message, which needs no check."""
        assigned = self._assigned_queues.get(place)
        return assigned is not None and assigned.cursor.paused

    @property
    def paused(self) -> list[TopicQueue]:
        """The paused queues of this member, each as (topic, queue)."""
        return sorted(assigned.place for assigned in self._assigned_queues if assigned.cursor.paused)

    async def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.

        Each offset can be passed to seek(). If a queue has no message from that time or later, its result is the end
        offset of the queue. The caller can also ask for queues that this member does not own. Raises
        UnknownTopicError, UnknownQueueError or InvalidArgumentError.
        """
        self._client.check_open()
        return await offsets_for_times(self._client, times)

    def _chosen(self, places: Iterable[tuple[str, int]]) -> list[AssignedQueue]:
        self._client.check_open()
        return [self._held(checked_pair("places", place)) for place in places] or list(self._assigned_queues)

    def _held(self, place: TopicQueue) -> AssignedQueue:
        self._client.check_open()
        assigned = self._assigned_queues.get(place)
        if assigned is None:
            topic, queue = place
            raise InvalidArgumentError(
                f'This member does not own queue {queue} of topic "{topic}" at the moment: see `assignment`.'
            )
        return assigned

    def _take_batches(self) -> list[GroupBatch]:
        batches = [batch for assigned in self._assigned_queues for batch in assigned.take_batches()]
        self._assigned_queues.made_room()
        return batches

    def _take(self, count: int) -> list[Message]:
        """Return up to `count` fetched messages of the assigned queues, and mark them as in hand."""
        messages: list[Message] = []
        for assigned in self._assigned_queues:
            messages += assigned.take(count - len(messages))
            if len(messages) >= count:
                break
        self._assigned_queues.made_room()
        return messages

    def _take_runs(self, count: int) -> list[QueueRun]:
        """Do the same as `_take`, but return the messages of each queue as a run."""
        runs: list[QueueRun] = []
        for assigned in self._assigned_queues:
            if (run := assigned.take_run(count)) is not None:
                runs.append(run)
                count -= len(run.messages)
            if count <= 0:
                break
        self._assigned_queues.made_room()
        return runs


def _checked_start(start: object) -> GroupStart:
    if isinstance(start, datetime):
        checked_time(in_ms(start))
    elif not isinstance(start, str) or start not in ("earliest", "latest"):
        raise InvalidArgumentError(f'start is {shown(start)}: it must be "earliest", "latest" or a datetime.')
    return cast("GroupStart", start)

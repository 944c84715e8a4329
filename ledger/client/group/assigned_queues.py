"""Claims the queues that are assigned to this member, acknowledges their offsets, and releases them.

The coordinator decides which queues this member owns. The leader of a queue's shard stores the acknowledged offset of
the queue, and accepts or rejects this member's acknowledgements. If the coordinator no longer assigns a queue to this
member, or the leader fences this member, the member drops the queue and its unfinished messages. The next owner
receives the dropped messages again.

Claims, releases and acknowledgements of each shard are a task of their own, because a shard without a leader must not
hold up the others. Callbacks of the program are called one after another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from ledger.client.background import ShardTasks, all_done
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.consumer.fetchers import Fetchers
from ledger.client.group.assigned_queue import AssignedQueue, QueueRun, Unit
from ledger.client.group.claiming import AssignmentSettings, MemberClaims
from ledger.client.group.group_membership import Assignment, AssignmentSource, View
from ledger.client.group.rebalance_callbacks import RebalanceCallbacks
from ledger.client.records import Message, TopicQueue
from ledger.errors import (
    ClosedError,
    ConsumerFencedError,
    InternalError,
    LedgerError,
    OffsetTooLowError,
    UnknownTopicError,
    from_wire,
)
from ledger.retries import retry_topic
from ledger.topics import TOPICS_SHARD
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.group_consumer")

_CLAIMS_AT_ONCE = 1_000
_PLACE, _OFFSET = attrgetter("topic", "queue"), attrgetter("offset")
# Stands for the shard of a queue whose topic was deleted. Only the coordinator hears of such a queue.
_NO_SHARD = -1

# A queue, and the offset to acknowledge.
_Due = tuple[AssignedQueue, int]


@dataclass(frozen=True, slots=True)
class _Moves:
    """The queues of one shard that a member releases and claims."""

    # Leaving queues that are finished, and leaving queues that this member has not claimed.
    finished: list[AssignedQueue] = field(default_factory=list)
    unclaimed: list[TopicQueue] = field(default_factory=list)
    new: dict[TopicQueue, Assignment] = field(default_factory=dict)


class AssignedQueues:
    """The assigned queues of one member, with their fetchers.

    `on_news` is called when a reader that waits must wake up: messages have arrived, an error has occurred, or the
    assignment has changed.
    """

    def __init__(
        self,
        client: ClusterClient,
        member: AssignmentSource,
        settings: AssignmentSettings,
        fetching: FetchSettings,
        on_news: Callable[[], None],
        callbacks: RebalanceCallbacks,
    ) -> None:
        self._client = client
        self._member = member
        self._callbacks = callbacks
        # Lost queues that the program was not told of yet. Queues are only added after a claim, which waits for the
        # callbacks, so the list is never longer than the number of queues.
        self._lost: list[TopicQueue] = []
        self._settings = settings
        self._claims = MemberClaims(client, settings)
        self._on_news = on_news
        self._view: View = {}
        self._by_place: dict[TopicQueue, AssignedQueue] = {}
        # The number of resets of each queue at its last claim.
        self._resets: dict[TopicQueue, int] = {}
        self._fetchers = Fetchers(client, fetching, on_news)
        self._changed = asyncio.Event()
        # The claims and releases that are under way.
        self._moving = ShardTasks(f"queues of consumer group {settings.consumer_group}", self.failed, self._moved)
        # The shards in which queues may have to be claimed or released when the present task of the shard has ended.
        self._moves_again: set[int] = set()
        # How often claims and releases of a shard have failed since the last success.
        self._failures: dict[int, int] = {}
        # Held while a callback of the program runs, and while a claimed queue becomes an assigned queue.
        self._telling = asyncio.Lock()
        # The acknowledgements of `keep_acknowledging` that are under way.
        self._acknowledging = ShardTasks(f"acknowledgements of consumer group {settings.consumer_group}", self.failed)
        # How many times this member dropped a queue.
        self.losses = 0
        # A task in the background has failed. All reads raise this error.
        self.defect: InternalError | None = None

    def __iter__(self) -> Iterator[AssignedQueue]:
        """Iterate over all assigned queues. Each iteration first moves the first queue to the end of the list, so
        that every queue is read."""
        for first in list(self._by_place)[:1]:
            self._by_place[first] = self._by_place.pop(first)
        return iter(list(self._by_place.values()))

    def get(self, place: TopicQueue) -> AssignedQueue | None:
        return self._by_place.get(place)

    def places(self) -> list[TopicQueue]:
        return sorted(self._by_place)

    @property
    def is_settled(self) -> bool:
        """True if this member owns queues, and has claimed every queue that is assigned to it."""
        wanted = [place for place, owned in self._view.items() if not owned.is_leaving]
        return bool(wanted) and all(place in self._by_place for place in wanted)

    @property
    def unacknowledged(self) -> int:
        """How many messages were handed out at most, and are not acknowledged."""
        return sum(assigned.cursor.position - assigned.acknowledged for assigned in self._by_place.values())

    @property
    def has_in_hand(self) -> bool:
        """True if a message was handed out and is not finished."""
        return not all(assigned.is_finished for assigned in self._by_place.values())

    def seen(self, view: View) -> None:
        """Handle a new assignment. Queues that are not in the assignment are dropped at once. The task `run` claims
        new queues and releases leaving queues later, because this task may be waiting for an answer now.
        """
        self._view = view
        self._drop_lost()
        self._wake()
        self._on_news()

    def failed(self, defect: InternalError) -> None:
        """Let all reads raise the defect of a task in the background."""
        self.defect = self.defect or defect
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

    def fetch_again(self) -> None:
        """Fetch again from the queues whose fetch ended with an error, from the same offset."""
        for assigned in self._by_place.values():
            if assigned.cursor.error is not None:
                assigned.cursor.seek(assigned.cursor.position)
                self._restart(assigned)

    def finish(self, messages: Iterable[Unit], *, only_held: bool = False) -> None:
        """Mark messages as finished. Messages of queues that this member lost are ignored.

        If `only_held` is True, messages that were handed out before an administrator reset the offset of their queue
        are ignored too.
        """
        for (topic, queue), some in groupby(messages, _PLACE):
            assigned = self._by_place.get(TopicQueue(topic, queue))
            if assigned is not None:
                units = assigned.units(some)
                if only_held:
                    assigned.finish_held(units)
                else:
                    assigned.finish(map(_OFFSET, units))
                if assigned.is_leaving and assigned.is_finished:
                    self._wake()

    def finish_next(self, run: QueueRun, count: int) -> None:
        """Mark the next `count` messages of the run as finished, with the conditions of `only_held` of `finish`."""
        assigned = run.assigned
        if not self._is_here(assigned) or not assigned.finish_next(run, count):
            next_ones = run.messages[run.finished : run.finished + count]
            run.finished += count
            self.finish(next_ones, only_held=True)
        elif assigned.is_leaving and assigned.is_finished:
            self._wake()

    def made_room(self) -> None:
        self._fetchers.made_room()

    def trouble(self) -> LedgerError | None:
        """Return the error that the next read must raise, or None if there is no error."""
        errors = [self.defect, self._member.trouble, self._claims.refusal]
        errors += [assigned.cursor.error for assigned in self._by_place.values() if not assigned.cursor.ready]
        errors += self._fetchers.troubles()
        return next((error for error in errors if error is not None), None)

    async def close(self) -> None:
        await self._fetchers.close()

    # -- claims and releases

    async def run(self) -> None:
        """Claim new queues and release leaving queues, until the task is cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                async with self._telling:
                    finished = await self._tell_changes()
                for shard, moves in sorted(self._moves(finished).items()):
                    if shard not in self._moving:
                        self._moving.start(shard, self._move_in(shard, moves))
        finally:
            await self._moving.end()

    def _wake(self) -> None:
        """Let `run` look for queues to claim and to release: at once in shards that have no task now, and in the others
        when their tasks have ended."""
        self._moves_again.update(self._moving)
        self._changed.set()

    def _moved(self, shard: int) -> None:
        """The task of a shard has ended. Look again if something has changed meanwhile."""
        if shard in self._moves_again:
            self._moves_again.discard(shard)
            self._changed.set()

    async def _tell_changes(self) -> list[AssignedQueue]:
        """Tell the program which queues it lost, keeps or is about to release. Return the queues to release: those that
        have no message in hand, or whose release timeout has passed."""
        await self._tell_lost()
        held = [(self._by_place[place], owned) for place, owned in self._view.items() if place in self._by_place]
        finished = [assigned for assigned, owned in held if self._lets_go(assigned, owned)]
        await self._tell_assigned([assigned for assigned, owned in held if not owned.is_leaving])
        await self._tell_revoked(finished)
        return finished

    def _moves(self, finished: Iterable[AssignedQueue]) -> dict[int, _Moves]:
        """Return for each shard what this member releases and claims there."""
        moves: defaultdict[int, _Moves] = defaultdict(_Moves)
        for assigned in finished:
            moves[assigned.shard].finished.append(assigned)
        for place, owned in sorted(self._view.items()):
            if place not in self._by_place:
                shard = self._shard_of(place, owned)
                if owned.is_leaving:
                    moves[shard].unclaimed.append(place)
                elif shard != _NO_SHARD:
                    moves[shard].new[place] = owned
        return moves

    def _shard_of(self, place: TopicQueue, owned: Assignment) -> int:
        topic = self._client.routes.table.topics.get(place.topic)
        is_there = topic is not None and topic.topic_id == owned.topic_id and place.queue < len(topic.shards)
        return topic.shards[place.queue] if topic is not None and is_there else _NO_SHARD

    async def _move_in(self, shard: int, moves: _Moves) -> None:
        """Release and claim queues of one shard. If this fails, wait, and let `run` try again. Claims do not wait for
        releases, because the coordinator may not answer."""
        try:
            await all_done(self._release(moves.finished, moves.unclaimed), self._claim_in(shard, moves.new))
            self._failures.pop(shard, None)
        except ClosedError:
            return
        except LedgerError as error:
            log.warning(
                "consumer group %s: queues of shard %d cannot be claimed or released, trying again: %s",
                self._settings.consumer_group,
                shard,
                error,
            )
            failures = self._failures[shard] = self._failures.get(shard, 0) + 1
            await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)
            self._moves_again.add(shard)

    def _drop_lost(self) -> None:
        for place, assigned in list(self._by_place.items()):
            owned = self._view.get(place)
            if owned is None or not _is_same(owned, assigned):
                self._drop(assigned)

    def _drop(self, assigned: AssignedQueue) -> None:
        if self._is_here(assigned):
            del self._by_place[assigned.place]
            self.losses += 1
            self._fetchers.remove(assigned.shard, assigned.cursor)
            if assigned.is_told:
                self._lost.append(assigned.place)

    async def _tell_lost(self) -> None:
        lost, self._lost = self._lost, []
        await self._callbacks.lost(lost)

    async def _tell_revoked(self, assigned_queues: Iterable[AssignedQueue]) -> None:
        """Tell the program, once, that this member releases these queues."""
        revoked = [assigned for assigned in assigned_queues if assigned.is_told and self._is_here(assigned)]
        for assigned in revoked:
            assigned.is_told = False
        await self._callbacks.revoked(assigned.place for assigned in revoked)

    async def _tell_assigned(self, assigned_queues: Iterable[AssignedQueue]) -> None:
        """Tell the program that this member owns these queues: new ones, and those whose release was taken back."""
        new = [assigned for assigned in assigned_queues if not assigned.is_told and self._is_here(assigned)]
        for assigned in new:
            assigned.is_told = True
        await self._callbacks.assigned(assigned.place for assigned in new)

    def _is_here(self, assigned: AssignedQueue) -> bool:
        return self._by_place.get(assigned.place) is assigned

    async def revoke_all(self) -> None:
        """Tell the program that this member releases all its queues, because the member leaves."""
        await self._tell_lost()
        await self._tell_revoked(list(self._by_place.values()))

    async def _release(self, finished: Sequence[AssignedQueue], unclaimed: Iterable[TopicQueue]) -> None:
        """Acknowledge the finished messages of leaving queues, and release these queues."""
        await self.acknowledge(finished)
        # During the acknowledgement the assignment may have changed: only queues that still leave are released.
        leaving = {place: owned for place, owned in self._view.items() if owned.is_leaving}
        finished = [assigned for assigned in finished if assigned.place in leaving]
        places = [*(assigned.place for assigned in finished), *(place for place in unclaimed if place in leaving)]
        if places:
            await self._member.release([(place, leaving[place]) for place in places])
        for assigned in finished:
            self._drop(assigned)

    def _lets_go(self, assigned: AssignedQueue, owned: Assignment) -> bool:
        now = asyncio.get_running_loop().time()
        if not owned.is_leaving:
            assigned.leaves_by = None
            return False
        if assigned.leaves_by is None:
            assigned.leaves_by = now + self._settings.release_s
            asyncio.get_running_loop().call_at(assigned.leaves_by, self._wake)
        return assigned.is_finished or now >= assigned.leaves_by

    async def _claim_in(self, shard: int, new: dict[TopicQueue, Assignment]) -> None:
        """Claim queues of one shard, and begin to fetch from them."""
        places = list(new.items())
        for first in range(0, len(places), _CLAIMS_AT_ONCE):
            assigned_queues = await self._claims.claim(shard, dict(places[first : first + _CLAIMS_AT_ONCE]))
            async with self._telling:
                for assigned in assigned_queues:
                    assigned.was_reset = self._resets.get(assigned.place, assigned.resets) != assigned.resets
                    self._resets[assigned.place] = assigned.resets
                    self._by_place[assigned.place] = assigned
                self._drop_lost()  # the assignment may have changed during the claim
                await self._tell_assigned(assigned_queues)
                here = [assigned for assigned in assigned_queues if self._is_here(assigned)]
                self._fetchers.start(shard)
                self._fetchers.add(shard, [assigned.cursor for assigned in here])
        if new or self._claims.refusal is not None:
            self._on_news()

    # -- acknowledgements

    async def keep_acknowledging(self) -> None:
        """Acknowledge finished messages regularly, until the task is cancelled."""
        try:
            while True:
                await asyncio.sleep(self._settings.interval_s)
                for shard, due in sorted(_due(self).items()):
                    if shard not in self._acknowledging:
                        self._acknowledging.start(shard, self._try_to_acknowledge(shard, due))
        finally:
            await self._acknowledging.end()

    async def _try_to_acknowledge(self, shard: int, due: Sequence[_Due]) -> None:
        try:
            await self._acknowledge_in(shard, due)
        except ClosedError:
            return
        except LedgerError as error:
            log.warning(
                "consumer group %s: offsets in shard %d cannot be acknowledged, trying again: %s",
                self._settings.consumer_group,
                shard,
                error,
            )

    async def acknowledge(self, assigned_queues: Iterable[AssignedQueue]) -> None:
        """Acknowledge the finished messages of `assigned_queues`, and return when the acknowledged offsets are
        committed.

        If an acknowledgement is rejected with ConsumerFencedError or UnknownTopicError, the queue is dropped. Raises
        LedgerError if the leader of a shard cannot be reached. The offsets of the other shards are then committed.
        """
        await all_done(*(self._acknowledge_in(shard, due) for shard, due in sorted(_due(assigned_queues).items())))

    async def _acknowledge_in(self, shard: int, due: Sequence[_Due]) -> None:
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
            error = self._client.routes.table.with_names(from_wire(progress.error))
            log.warning(
                "the acknowledgement of queue %d of %s was rejected: %s",
                assigned.place.queue,
                assigned.place.topic,
                error,
            )
            if isinstance(error, (ConsumerFencedError, UnknownTopicError)):
                self._drop(assigned)
                self._wake()  # if this member still owns the queue, it claims the queue again

    async def move(self, message: Message, *, give_up: bool) -> None:
        """Move a message to the retry topic, or, if `give_up` is True, to the dead letters.

        If this member lost the queue or the topic was deleted, do nothing. Raises LedgerError.
        """
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
        except OffsetTooLowError as error:  # the message is no longer kept
            log.warning("message %s is not moved: %s", message.id, error)
        except ConsumerFencedError as error:  # another member owns the queue, or the topic was deleted
            log.warning("message %s is not moved: %s", message.id, error)
            self._drop(assigned)
            self._wake()
            return
        self.finish([message])

    async def _move(self, request: consumer_group_pb2.MoveRequest, assigned: AssignedQueue) -> None:
        """Send the move request. Raises ConsumerFencedError if the member lost the queue or the topic was deleted, or
        another LedgerError.
        """

        async def move() -> None:
            await self._client.call(assigned.shard, lambda stub, seconds: stub.Move(request, timeout=seconds))

        try:
            await move()
        except UnknownTopicError as error:
            topic = self._client.routes.table.topics.get(assigned.place.topic)
            if topic is None or topic.topic_id != assigned.cursor.topic_id:
                raise ConsumerFencedError(f"Topic {assigned.place.topic!r} was deleted.") from error
            # The shard was added after the retry topic was created, so the retry topic has no queue in it yet.
            await prepare_retries(self._client, self._settings.consumer_group)
            await move()

    # -- fetching

    def _restart(self, assigned: AssignedQueue) -> None:
        """Restart the fetcher of the queue, so that it fetches from the new offset of the queue's cursor."""
        self._fetchers.restart(assigned.shard)
        self._wake()  # after a seek a leaving queue has no message in hand, so it can be released


def _due(assigned_queues: Iterable[AssignedQueue]) -> dict[int, list[_Due]]:
    """Return for each shard the queues that have finished messages to acknowledge."""
    due: dict[int, list[_Due]] = {}
    for assigned in assigned_queues:
        if (offset := assigned.finished_up_to) > assigned.acknowledged:
            due.setdefault(assigned.shard, []).append((assigned, offset))
    return due


def _is_same(owned: Assignment, assigned: AssignedQueue) -> bool:
    """Return True if `owned` is the assignment under which the queue was claimed: the topic id is the same, and the
    epoch is the same or 0."""
    return owned.topic_id == assigned.cursor.topic_id and owned.epoch in (0, assigned.epoch)


async def prepare_retries(client: ClusterClient, consumer_group: str) -> str:
    """Create the retry topic of this consumer group if it does not exist. If the cluster has new shards, add queues
    of the retry topic in the new shards. Return the name of the retry topic."""
    request = consumer_group_pb2.PrepareRetriesRequest(consumer_group=consumer_group)
    await client.call(TOPICS_SHARD, lambda stub, seconds: stub.PrepareRetries(request, timeout=seconds))
    return retry_topic(consumer_group)

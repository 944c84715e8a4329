"""The coordinator of the consumer groups of one shard, while this node leads it.

    join, leave, silence ──> generation rises ──(a moment later)──> assignment ──> owners, by new epochs
                                                                       └──> members that wait are told

Who is a member, and whose a queue is, is replicated; who was heard of lately is not. So a new leader goes on with the
same members and owners, and gives everybody a whole session to be heard of. A large assignment is made, and
committed, piece by piece, so that nothing else on this node waits for it for more than a few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.assignment import Rooms, assigning, nowhere, slices
from ledger.broker.consumer_groups.assignment_waiters import AssignmentWaiters
from ledger.errors import LedgerError
from ledger.state import ConsumerGroup, TopicQueueId
from ledger.state.consumption import unknown_member
from ledger.v1 import command_pb2

log = logging.getLogger("ledgermq.broker.coordinator")

CHECK_S = 0.5
"""Between looks at who is silent."""
GATHER_S = 0.05
"""Without a change of members, before an assignment: those that come together are assigned together."""
LONGEST_GATHER_S = 1.0
"""After which it is made although members go on coming."""
AT_ONCE = 1_000
"""Queues of one entry: it is applied in 3 ms."""

Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]
"""Begins a task of that name, in which nothing may fail."""


class Coordinator:
    """`run` it as long as the node runs."""

    def __init__(self, replica: BrokerReplica, monotonic_ms: Callable[[], float], spawn: Spawn) -> None:
        self._replica = replica
        self._monotonic_ms = monotonic_ms
        self._spawn = spawn
        self._assignment_waiters = AssignmentWaiters()
        self._term = 0
        """In which this node leads; 0: it does not."""
        self._heard_ms: dict[tuple[str, str], float] = {}
        """When each member (consumer group, name) was heard of last, in this term; who was not, at the first look."""
        self.rebalances = 0
        """Assignments that were committed while this node led."""
        self._assigning: dict[str, asyncio.Task[None]] = {}
        """By consumer group, assignments that are due or under way."""
        self._runs = False

    async def run(self) -> None:
        self._runs = True
        try:
            while True:
                await asyncio.sleep(CHECK_S)
                self._look_around()
        finally:
            self._runs = False
            for assignment in self._assigning.values():
                assignment.cancel()

    # -- what members ask

    async def join(self, consumer_group: str, wanted: command_pb2.JoinConsumerGroup) -> None:
        """Raises LedgerError."""
        self.heard(consumer_group, wanted.member)
        await self._change(consumer_group, command_pb2.Command(join_consumer_group=wanted))

    async def leave(self, consumer_group: str, members: Iterable[str]) -> None:
        """Raises LedgerError."""
        wanted = command_pb2.LeaveConsumerGroup(consumer_group=consumer_group, members=members)
        await self._change(consumer_group, command_pb2.Command(leave_consumer_group=wanted))

    async def release(self, consumer_group: str, wanted: command_pb2.ReleaseQueues) -> None:
        """Raises LedgerError."""
        self.heard(consumer_group, wanted.member)
        await self._change(consumer_group, command_pb2.Command(release_queues=wanted))

    # -- what operators ask

    async def renew(self, consumer_group: str, queues: Iterable[TopicQueueId]) -> None:
        """Who owns these is to claim them again. Raises LedgerError."""
        wanted = command_pb2.RenewQueues(
            consumer_group=consumer_group,
            queues=[command_pb2.QueueRef(topic_id=each.topic_id, queue=each.queue) for each in queues],
        )
        await self._change(consumer_group, command_pb2.Command(renew_queues=wanted))

    # -- who waits

    async def attend(self, consumer_group: str, member: str, version: int, wait_s: float) -> ConsumerGroup:
        """The consumer group in which the member's view is another one than that of `version`, or is so still after
        that time. Raises UnknownMemberError, or another LedgerError where this node does not lead."""
        group = self._consumer_group_of(consumer_group, member)
        self.heard(consumer_group, member)
        if group.members[member].version == version and wait_s > 0:
            news = self._assignment_waiters.wait_for(consumer_group, member, version)
            try:
                await asyncio.wait((news,), timeout=wait_s)
            finally:
                news.cancel()
            group = self._consumer_group_of(consumer_group, member)
            self.heard(consumer_group, member)
        return group

    def heard(self, consumer_group: str, member: str) -> None:
        self._heard_ms[consumer_group, member] = self._monotonic_ms()

    def _consumer_group_of(self, consumer_group: str, member: str) -> ConsumerGroup:
        self._replica.check_leads(0)
        group = self._replica.state.consumption.groups.get(consumer_group)
        if group is None or member not in group.members:
            raise unknown_member(consumer_group, member)
        return group

    async def _change(self, consumer_group: str, command: command_pb2.Command) -> None:
        """Proposes it. A client that goes away does not take it back."""
        future = self._replica.command(command)
        future.add_done_callback(lambda _: self._changed(consumer_group))
        await asyncio.shield(future)

    # -- assignments

    def _changed(self, consumer_group: str) -> None:
        group = self._replica.state.consumption.groups.get(consumer_group)
        self._assignment_waiters.announce(consumer_group, group)
        is_due = group is not None and group.assigned != group.generation and consumer_group not in self._assigning
        if is_due and self._runs:
            self._assigning[consumer_group] = self._spawn(
                self._assign(consumer_group), f"assignment of {consumer_group}"
            )

    async def _assign(self, consumer_group: str) -> None:
        """Once members have stopped coming and going; and again where they did so in between."""
        try:
            while (group := await self._gathered(consumer_group)) is not None:
                if await self._assigned(group):
                    self.rebalances += 1
        except LedgerError as refusal:  # tried again by the next look
            log.info("consumer group %s: no assignment yet: %s", consumer_group, refusal)
        finally:
            del self._assigning[consumer_group]
            self._assignment_waiters.announce(
                consumer_group, self._replica.state.consumption.groups.get(consumer_group)
            )

    async def _gathered(self, consumer_group: str) -> ConsumerGroup | None:
        """The consumer group as it is then; None: there is nothing to assign."""
        loop = asyncio.get_running_loop()
        groups, seen, latest = self._replica.state.consumption.groups, 0, loop.time() + LONGEST_GATHER_S
        while (group := groups.get(consumer_group)) is not None and group.assigned != group.generation:
            if seen == group.generation or loop.time() >= latest:
                return group
            seen = group.generation
            await asyncio.sleep(GATHER_S)
        return None

    async def _assigned(self, group: ConsumerGroup) -> bool:
        """Whether it is assigned, and not void because members came or went. Raises LedgerError."""
        generation, steps = group.generation, moves(group, partial(self._room_of, group))
        while group.generation == generation:
            try:
                next(steps)
            except StopIteration as end:
                return await self._commit(group, end.value)
            await asyncio.sleep(0)
        return False

    def _room_of(self, group: ConsumerGroup, queue: TopicQueueId) -> str:
        """Of the node that leads its shard; empty where that is not known."""
        topic = self._replica.state.topics.get(queue.topic_id)
        if topic is None or queue.queue >= topic.queues:
            return ""
        return group.rooms.get(topic.shards[queue.queue], "")

    async def _commit(self, group: ConsumerGroup, targets: list[command_pb2.QueueTarget]) -> bool:
        """Entry after entry. Those who wait are told of all of it at once."""
        wanted = command_pb2.AssignQueues(consumer_group=group.name, generation=group.generation)
        for first in range(0, max(1, len(targets)), AT_ONCE):
            del wanted.targets[:]
            wanted.targets.extend(targets[first : first + AT_ONCE])
            wanted.goes_on = first + AT_ONCE < len(targets)
            if not await self._replica.command(command_pb2.Command(assign_queues=wanted)):
                return False
        return True

    # -- who is silent

    def _look_around(self) -> None:
        term = self._replica.leading_term
        if term != self._term:
            self._begin(term)
        if not term:
            return
        now, heard = self._monotonic_ms(), dict(self._heard_ms)
        self._heard_ms.clear()  # and keep those that are members still
        for group in self._replica.state.consumption.groups:
            silent = []
            for name, member in group.members.items():
                last = self._heard_ms[group.name, name] = heard.get((group.name, name), now)
                if now - last > member.told.session_timeout_ms:
                    silent.append(name)
            if silent:
                self._give_up(group.name, silent)
            self._changed(group.name)

    def _begin(self, term: int) -> None:
        """Another leader was heard of others."""
        self._term = term
        self._heard_ms.clear()
        self._assignment_waiters.dismiss()

    def _give_up(self, consumer_group: str, members: list[str]) -> None:
        log.warning("consumer group %s: nothing is heard of %s: their queues go to others", consumer_group, members)
        wanted = command_pb2.LeaveConsumerGroup(consumer_group=consumer_group, members=members)
        try:
            future = self._replica.command(command_pb2.Command(leave_consumer_group=wanted))
        except LedgerError as refusal:
            log.info("consumer group %s: they stay for now: %s", consumer_group, refusal)
            return
        future.add_done_callback(lambda _: self._changed(consumer_group))


def moves(group: ConsumerGroup, rooms: Rooms = nowhere) -> Generator[None, None, list[command_pb2.QueueTarget]]:
    """In steps, as `assigning` has them: what is to be said so that the consumer group is assigned anew."""
    assignment = yield from assigning(group, rooms)
    targets: list[command_pb2.QueueTarget] = []
    for some in slices(tuple(assignment.items())):
        targets += [
            command_pb2.QueueTarget(topic_id=queue.topic_id, queue=queue.queue, member=member)
            for queue, member in some
            if (share := group.shares.get(queue)) is None or share.target != member or not share.owner
        ]
        yield
    unwanted = [queue for queue, share in group.shares.items() if share.target and queue not in assignment]
    targets += [command_pb2.QueueTarget(topic_id=queue.topic_id, queue=queue.queue) for queue in unwanted]
    return targets

"""The coordinator of the consumer groups of one Raft group, while this node leads it.

    join, leave, silence ──> generation rises ──(a moment later)──> assignment ──> owners, by new epochs
                                                                       └──> members that wait are told

The one idea: who is a member, and whose a queue is, is replicated; who was heard of lately is not. So a new leader goes
on with the same members and owners, and gives everybody a whole session to be heard of.

It must not know how a queue's offsets are kept, nor how clients ask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ledger.broker.assignment import assign
from ledger.broker.attendance import Attendance
from ledger.broker.replica import Replica
from ledger.errors import LedgerError
from ledger.state import ConsumerGroup, TopicQueueId
from ledger.state.consumption import unknown_member
from ledger.v1 import command_pb2

log = logging.getLogger("ledger.coordinator")

CHECK_S = 0.5
"""Between looks at who is silent."""
GATHER_S = 0.05
"""From the first change of members to the assignment: those that come together are assigned together."""


class Coordinator:
    """`run` it as long as the node runs."""

    def __init__(self, replica: Replica, monotonic_ms: Callable[[], float]) -> None:
        self._replica = replica
        self._monotonic_ms = monotonic_ms
        self._attendance = Attendance()
        self._term = 0
        """In which this node leads; 0: it does not."""
        self._heard_ms: dict[tuple[str, str], float] = {}
        """When each member (consumer group, name) was heard of last, in this term; who was not, at the first look."""
        self.rebalances = 0
        """Assignments that were committed while this node led."""
        self._assigning: dict[str, None] = {}
        """Consumer groups whose assignment is due or under way."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            self._look_around()

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
        group = self._group_of(consumer_group, member)
        self.heard(consumer_group, member)
        if group.members[member].version == version and wait_s > 0:
            news = self._attendance.wait_for(consumer_group, member, version)
            try:
                await asyncio.wait((news,), timeout=wait_s)
            finally:
                news.cancel()
            group = self._group_of(consumer_group, member)
            self.heard(consumer_group, member)
        return group

    def heard(self, consumer_group: str, member: str) -> None:
        self._heard_ms[consumer_group, member] = self._monotonic_ms()

    def _group_of(self, consumer_group: str, member: str) -> ConsumerGroup:
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
        self._attendance.announce(consumer_group, group)
        if group is not None and group.assigned != group.generation and consumer_group not in self._assigning:
            self._assigning[consumer_group] = None
            asyncio.get_running_loop().call_later(GATHER_S, self._assign, consumer_group)

    def _assign(self, consumer_group: str) -> None:
        group = self._replica.state.consumption.groups.get(consumer_group)
        if group is None:
            del self._assigning[consumer_group]
            return
        targets = [
            command_pb2.QueueTarget(topic_id=queue.topic_id, queue=queue.queue, member=member)
            for queue, member in assign(group).items()
        ]
        wanted = command_pb2.AssignQueues(consumer_group=group.name, generation=group.generation, targets=targets)
        try:
            future = self._replica.command(command_pb2.Command(assign_queues=wanted))
        except LedgerError as refusal:
            log.info("consumer group %s: no assignment yet: %s", group.name, refusal)
            del self._assigning[consumer_group]  # tried again by the next look
            return
        future.add_done_callback(lambda done: self._assigned(consumer_group, done))

    def _assigned(self, consumer_group: str, done: asyncio.Future[bool]) -> None:
        del self._assigning[consumer_group]
        if done.exception() is None and done.result():
            self.rebalances += 1
        self._changed(consumer_group)  # others may have come meanwhile

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
        self._attendance.dismiss()

    def _give_up(self, consumer_group: str, members: list[str]) -> None:
        log.warning("consumer group %s: nothing is heard of %s: their queues go to others", consumer_group, members)
        wanted = command_pb2.LeaveConsumerGroup(consumer_group=consumer_group, members=members)
        try:
            future = self._replica.command(command_pb2.Command(leave_consumer_group=wanted))
        except LedgerError as refusal:
            log.info("consumer group %s: they stay for now: %s", consumer_group, refusal)
            return
        future.add_done_callback(lambda _: self._changed(consumer_group))

"""A coordinator manages the consumer groups of one shard while its node leads the shard.

    join, leave, silence ──> generation rises ──(a moment later)──> assignment ──> owners with new epochs
                                                                       └──> waiting members receive it

The members and the owners of queues are replicated. The times of heartbeats are not replicated. A new leader
continues with the same members and owners, and gives each member a whole session timeout to send a heartbeat. A
large assignment is computed and committed piece by piece, so that other work of this node waits at most a few
milliseconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import replace
from functools import partial

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.assignment import Rooms, assigning, nowhere, slices
from ledger.broker.consumer_groups.assignment_waiters import AssignmentWaiters
from ledger.consumer_groups import MAX_CONFIGURED_OF_GROUP, validate_member_name
from ledger.errors import BusyError, GroupFullError, InvalidArgumentError, LedgerError
from ledger.state import ConsumerGroup, TopicQueueId
from ledger.state.commands import (
    AssignQueues,
    CloseGroup,
    CreateConsumerGroup,
    GroupCommand,
    HostGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    QueueTarget,
    ReleaseQueues,
    RenewQueues,
)
from ledger.state.consumption import check_join, elsewhere, unknown_member
from ledger.state.coordinator_table import CoordinatorPlace, HostedGroup
from ledger.state.feature_levels import PLACED_COORDINATORS, SHARED_GROUPS
from ledger.state.shard_table import MAX_SHARDS
from ledger.topics import TOPICS_SHARD

log = logging.getLogger("ledgermq.broker.coordinator")

# Interval of the checks for silent members.
CHECK_S = 0.5
# The longest time between two checks that counts as silence of the members. After a longer time this node itself was
# held up, and has not read the heartbeats that came meanwhile.
LONGEST_CHECK_S = 1.0
# An assignment begins after members have not changed for this time, so members that join together are assigned
# together.
GATHER_S = 0.05
# An assignment begins after this time although members still change.
LONGEST_GATHER_S = 1.0
# Queues of one entry of an assignment. Applying such an entry takes 3 ms.
AT_ONCE = 1_000

# Silent members that a log line names. A group can have 10,000 members.
MAX_NAMED = 10

# How long a member that joins waits until this node's replica of shard 0 knows where its group was placed.
PATIENCE_S = 1.0
_LOOK_S = 0.05

# Starts a task of this name. An exception in the task stops the node.
Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]


class Coordinator:
    """Manages the members and assignments of the consumer groups of one shard. Run the method `run` as a task as
    long as the node runs."""

    def __init__(
        self,
        replica: BrokerReplica,
        monotonic_ms: Callable[[], float],
        spawn: Spawn,
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """`shared_wait_s` is that of the node's runtime: it may make a regular wait a little shorter."""
        self._shared_wait_s = shared_wait_s
        self._replica = replica
        self._monotonic_ms = monotonic_ms
        self._spawn = spawn
        self._assignment_waiters = AssignmentWaiters()
        # The term in which this node leads; 0 if it does not lead.
        self._term = 0
        # (consumer group, member) -> time of the last heartbeat in this term, or of the first check without one.
        self._heard_ms: dict[tuple[str, str], float] = {}
        self._checked_ms = monotonic_ms()
        # Assignments that were committed while this node led.
        self.rebalances = 0
        # By consumer group: assignments that are due or under way.
        self._assigning: dict[str, asyncio.Task[None]] = {}
        # The groups that may have changed in this turn of the event loop (a dict, because a set has no order).
        self._changed: dict[str, None] = {}
        self._runs = False

    async def run(self) -> None:
        self._runs = True
        try:
            while True:
                await asyncio.sleep(self._shared_wait_s(CHECK_S))
                self._look_around()
        finally:
            self._runs = False
            for assignment in self._assigning.values():
                assignment.cancel()

    # -- requests of members

    async def join(self, wanted: JoinConsumerGroup) -> None:
        """Add a member, or change its details. Raises LedgerError."""
        self._check_join(wanted)
        await self.host(wanted.consumer_group)
        self.heard(wanted.consumer_group, wanted.member.member)
        number = self._replica.state.coordinators.number(wanted.consumer_group)
        await self._change(replace(self._without_deleted(wanted), number=number))

    def _check_join(self, wanted: JoinConsumerGroup) -> None:
        """Raise InvalidGroupNameError or InvalidArgumentError for a join with impossible values, and GroupFullError if
        the members would be configured with too many queues. So no entry of the log has such a join."""
        check_join(wanted)
        for shard, _ in wanted.rooms:
            if shard >= MAX_SHARDS:
                raise InvalidArgumentError(f"there can be no shard {shard}: shards are 0 to {MAX_SHARDS - 1}")
        member, group = wanted.member, self._replica.state.consumption.groups.get(wanted.consumer_group)
        if not member.configured or group is None:
            return
        others = sum(len(each.details.configured) for name, each in group.members.items() if name != member.member)
        if others + len(member.configured) > MAX_CONFIGURED_OF_GROUP:
            raise GroupFullError(
                f"The other members of consumer group {wanted.consumer_group!r} are configured with {others:,} queues, "
                f"and this member with {len(member.configured):,}: at most {MAX_CONFIGURED_OF_GROUP:,} together."
            )

    async def leave(self, consumer_group: str, members: Iterable[str]) -> None:
        """Remove members. Raises LedgerError."""
        leaving = tuple(members)
        for member in leaving:
            validate_member_name(member)
        self.check(consumer_group)
        await self._change(LeaveConsumerGroup(consumer_group, leaving))

    async def release(self, wanted: ReleaseQueues) -> None:
        """Remove queues from the member that releases them. Raises LedgerError."""
        self._consumer_group_of(wanted.consumer_group, wanted.member)
        self.heard(wanted.consumer_group, wanted.member)
        await self._change(wanted)

    # -- requests of operators

    async def create(self, wanted: CreateConsumerGroup) -> None:
        """Create a consumer group with a mode, in shard 0. Raises LedgerError."""
        replica = self._replica
        if replica.shard != TOPICS_SHARD:
            raise InvalidArgumentError(
                f"shard {TOPICS_SHARD} stores the modes of groups, and not shard {replica.shard}"
            )
        replica.check_leads(0)
        await replica.feature_level.reach(SHARED_GROUPS)
        await asyncio.shield(replica.command(wanted))

    async def renew(self, consumer_group: str, queues: Iterable[TopicQueueId]) -> None:
        """Give the owners of `queues` new epochs, so that they claim the queues again. Raises LedgerError."""
        self.check(consumer_group)
        await self._change(RenewQueues(consumer_group, tuple(queues)))

    # -- which shard coordinates a group

    def check(self, consumer_group: str) -> None:
        """Raise CoordinatedElsewhereError if this shard does not coordinate the group, as far as this node knows."""
        replica = self._replica
        replica.check_leads(0)
        if replica.shard == TOPICS_SHARD:
            place = replica.state.coordinators.get(consumer_group)
            if place is not None and place.shard != TOPICS_SHARD:
                raise elsewhere(consumer_group, place.shard)
            return
        hosted = replica.state.coordinators.hosted(consumer_group)
        if hosted is None or self._was_moved(consumer_group, hosted):
            place = self._place(consumer_group)
            raise elsewhere(consumer_group, None if place is None else place.shard)

    async def host(self, consumer_group: str) -> None:
        """Return when this shard coordinates the group. If shard 0 has placed the group here, note it in the log of
        this shard first. Raises CoordinatedElsewhereError, or another LedgerError."""
        replica = self._replica
        replica.check_leads(0)
        if replica.shard == TOPICS_SHARD:
            self.check(consumer_group)
            return
        for _ in range(round(PATIENCE_S / _LOOK_S)):  # this node's replica of shard 0 may be a moment behind
            hosted, place = replica.state.coordinators.hosted(consumer_group), self._place(consumer_group)
            if hosted is not None and not self._was_moved(consumer_group, hosted):
                return
            if place is not None and place.shard == replica.shard:
                await self._host(consumer_group, place)
                return
            if place is not None:
                raise elsewhere(consumer_group, place.shard)
            await asyncio.sleep(_LOOK_S)
            replica.check_leads(0)
        raise elsewhere(consumer_group, None)

    async def _host(self, consumer_group: str, place: CoordinatorPlace) -> None:
        replica = self._replica
        await replica.feature_level.reach(PLACED_COORDINATORS)
        if replica.state.feature_level < PLACED_COORDINATORS:
            raise BusyError(
                f"shard {replica.shard} has feature level {replica.state.feature_level} and cannot coordinate groups "
                "yet: try again shortly"
            )
        await asyncio.shield(replica.command(HostGroup(consumer_group, place.number, place.placed_at)))

    def close_moved(self) -> None:
        """Propose to remove the members of groups that shard 0 has placed elsewhere, or that were deleted."""
        for name, hosted in self._replica.state.coordinators.hosted_groups():
            if self._was_moved(name, hosted):
                log.info("consumer group %s: shard %d does not coordinate it any more", name, self._replica.shard)
                self._try(CloseGroup(name, hosted.number), "its members stay for now")

    def _was_moved(self, consumer_group: str, hosted: HostedGroup) -> bool:
        """Return True if shard 0 has placed the group anew since it was placed here, or if the group was deleted."""
        first = self._replica.find_first()
        if first is None or first.driver.applied < hosted.placed_at:
            return False  # this node's replica of shard 0 is behind
        place = first.state.coordinators.get(consumer_group)
        return place is None or (place.shard, place.number) != (self._replica.shard, hosted.number)

    def _place(self, consumer_group: str) -> CoordinatorPlace | None:
        first = self._replica.find_first()
        return None if first is None else first.state.coordinators.get(consumer_group)

    def _without_deleted(self, wanted: JoinConsumerGroup) -> JoinConsumerGroup:
        """Return the command without topics that were deleted. Only shard 0 knows them, so in another shard the leader
        leaves them out before it proposes the command."""
        first, member = self._replica.find_first(), wanted.member
        if first is None or self._replica.shard == TOPICS_SHARD:
            return wanted
        was_deleted = first.state.topics.was_deleted
        known = replace(
            member,
            subscriptions=tuple(each for each in member.subscriptions if not was_deleted(each[0])),
            configured=tuple(queue for queue in member.configured if not was_deleted(queue.topic_id)),
        )
        return replace(wanted, member=known)

    # -- heartbeats

    async def attend(self, consumer_group: str, member: str, version: int, wait_s: float) -> ConsumerGroup:
        """Handle a heartbeat of a member. `version` is the version of the assignment that the member knows. Return
        the consumer group as soon as the member has another assignment, or after `wait_s` seconds. Raises
        UnknownMemberError, or another LedgerError if this node does not lead."""
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
        """Record the present time as the time of the member's last heartbeat."""
        self._heard_ms[consumer_group, member] = self._monotonic_ms()

    def _consumer_group_of(self, consumer_group: str, member: str) -> ConsumerGroup:
        self.check(consumer_group)
        group = self._replica.state.consumption.groups.get(consumer_group)
        if group is None or member not in group.members:
            raise unknown_member(consumer_group, member)
        return group

    async def _change(self, command: GroupCommand) -> None:
        """Propose a command and await its commit. The proposal continues even if the client disconnects."""
        future = self._replica.command(command)
        future.add_done_callback(lambda _: self.changed(command.consumer_group))
        await asyncio.shield(future)

    # -- assignments

    def changed(self, consumer_group: str) -> None:
        """Tell the waiting members of a group that it may have changed, and begin an assignment that is due. The
        members hear once of all changes in one turn of the event loop, because thousands of members can wait."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changed)
        self._changed[consumer_group] = None

    def _tell_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for consumer_group in changed:
            self._tell(consumer_group)

    def _tell(self, consumer_group: str) -> None:
        group = self._replica.state.consumption.groups.get(consumer_group)
        self._assignment_waiters.announce(consumer_group, group)
        is_due = group is not None and group.assigned != group.generation and consumer_group not in self._assigning
        if is_due and self._runs:
            self._assigning[consumer_group] = self._spawn(
                self._assign(consumer_group), f"assignment of {consumer_group}"
            )

    async def _assign(self, consumer_group: str) -> None:
        """Assign the queues of a consumer group after its members have stopped changing. If members change during
        the assignment, assign the queues again."""
        try:
            while (group := await self._gathered(consumer_group)) is not None:
                if await self._assigned(group):
                    self.rebalances += 1
        except LedgerError as refusal:  # the next check tries again
            log.info("consumer group %s: not assigned yet, and tried again shortly: %s", consumer_group, refusal)
        finally:
            del self._assigning[consumer_group]
            self._assignment_waiters.announce(
                consumer_group, self._replica.state.consumption.groups.get(consumer_group)
            )

    async def _gathered(self, consumer_group: str) -> ConsumerGroup | None:
        """Wait until the members of a consumer group have stopped changing, at most LONGEST_GATHER_S. Returns the
        consumer group, or None if it needs no new assignment."""
        loop = asyncio.get_running_loop()
        groups, seen, latest = self._replica.state.consumption.groups, 0, loop.time() + LONGEST_GATHER_S
        while (group := groups.get(consumer_group)) is not None and group.assigned != group.generation:
            if seen == group.generation or loop.time() >= latest:
                return group
            seen = group.generation
            await asyncio.sleep(GATHER_S)
        return None

    async def _assigned(self, group: ConsumerGroup) -> bool:
        """Compute and commit one assignment. Returns False if members changed during the computation. Raises
        LedgerError."""
        generation, steps = group.generation, moves(group, partial(self._room_of, group))
        while group.generation == generation:
            try:
                next(steps)
            except StopIteration as end:
                return await self._commit(group, end.value)
            await asyncio.sleep(0)
        return False

    def _room_of(self, group: ConsumerGroup, queue: TopicQueueId) -> str:
        """Return the machine room of the node that leads the queue's shard, or "" if the room is not known."""
        topics = self._replica.find_first() or self._replica  # another shard than shard 0 does not have all topics
        topic = topics.state.topics.get(queue.topic_id)
        if topic is None or queue.queue >= topic.queues:
            return ""
        return group.rooms.get(topic.shards[queue.queue], "")

    async def _commit(self, group: ConsumerGroup, targets: list[QueueTarget]) -> bool:
        """Commit an assignment, in entries of at most AT_ONCE queues. Returns False if the members changed
        meanwhile, which makes the assignment void."""
        name, generation = group.name, group.generation
        for first in range(0, max(1, len(targets)), AT_ONCE):
            end = first + AT_ONCE
            piece = AssignQueues(name, generation, tuple(targets[first:end]), goes_on=end < len(targets))
            if not await self._replica.command(piece):
                return False
        return True

    # -- silent members

    def _look_around(self) -> None:
        term = self._replica.leading_term
        if term != self._term:
            self._begin(term)
        if not term:
            return
        self.close_moved()
        now, heard = self._monotonic_ms(), dict(self._heard_ms)
        held_up_ms = max(now - self._checked_ms - LONGEST_CHECK_S * 1000, 0.0)
        self._checked_ms = now
        self._heard_ms.clear()  # and keep the present members
        for group in self._replica.state.consumption.groups:
            silent = []
            for name, member in group.members.items():
                last = min(heard.get((group.name, name), now) + held_up_ms, now)
                self._heard_ms[group.name, name] = last
                if now - last > member.details.session_timeout_ms:
                    silent.append(name)
            if silent:
                self._give_up(group.name, silent)
            self.changed(group.name)

    def _begin(self, term: int) -> None:
        """Forget all heartbeats and end all waiting requests, because a term of this node as leader begins or ends.
        Heartbeats that an earlier leader received do not count."""
        self._term = term
        self._checked_ms = self._monotonic_ms()
        self._heard_ms.clear()
        self._assignment_waiters.dismiss()

    def _give_up(self, consumer_group: str, members: list[str]) -> None:
        others = f" and {len(members) - MAX_NAMED:,} others" * (len(members) > MAX_NAMED)
        log.warning(
            "consumer group %s: silent members %s%s are removed, and others get their queues",
            consumer_group,
            members[:MAX_NAMED],
            others,
        )
        self._try(LeaveConsumerGroup(consumer_group, tuple(members)), "silent members stay for now")

    def _try(self, command: GroupCommand | CloseGroup, otherwise: str) -> None:
        """Propose a command that the next look tries again, if it cannot be proposed now."""
        name = command.consumer_group
        try:
            future = self._replica.command(command)
        except LedgerError as refusal:
            log.info("consumer group %s: %s: %s", name, otherwise, refusal)
            return
        future.add_done_callback(lambda _: self.changed(name))


def moves(group: ConsumerGroup, rooms: Rooms = nowhere) -> Generator[None, None, list[QueueTarget]]:
    """Compute a new assignment in steps, like `assigning`. Return only the targets that differ from the present
    targets, and the targets of queues that have no owner."""
    assignment = yield from assigning(group, rooms)
    targets: list[QueueTarget] = []
    for some in slices(tuple(assignment.items())):
        targets += [
            QueueTarget(queue, member)
            for queue, member in some
            if (share := group.shares.get(queue)) is None or share.target != member or not share.owner
        ]
        yield
    unwanted = [queue for queue, share in group.shares.items() if share.target and queue not in assignment]
    targets += [QueueTarget(queue, "") for queue in unwanted]
    return targets

"""The consumer groups that this shard coordinates: their members, and the owner of each queue.

    target   A A B B C C        the member that the last assignment chose
    owner    A A A B - C        the member that owns the queue: A must release the third queue, and the fifth is free
    epoch    7 7 7 9 9 12       index of the entry by which the owner received the queue

If the target of a queue is not its owner, the owner keeps the queue until the owner releases the queue, leaves, or
is removed because it sent no heartbeat for too long. When the owner no longer has the queue, the target becomes the
owner of the queue, with a new epoch. A queue never has two owners at a time. The shard of the queue fences late
requests of an earlier owner (`progress_table`). Generations, epochs and versions are indexes of log entries, above the
floor of the coordinator (`coordinator_table`), so they always rise. This is why the table does not have to store
consumer groups without members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from ledger.consumer_groups import MAX_CONFIGURED, MAX_CONSUMER_GROUPS, MAX_MEMBERS, MAX_QUEUES, MAX_SUBSCRIPTIONS
from ledger.errors import GroupConflictError, GroupFullError
from ledger.state.subscribed_queues import SubscribedQueues

NO_ROOMS: Mapping[int, str] = MappingProxyType({})


class TopicQueueId(NamedTuple):
    """Identifies a queue by its topic id and its number in the topic."""

    topic_id: int
    queue: int


@dataclass(frozen=True, slots=True)
class MemberDetails:
    """The details that a member states about itself when it joins."""

    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    # (topic id, number of queues that the member knows). In the table sorted by topic id.
    subscriptions: tuple[tuple[int, int], ...]
    # The queues that the member consumes under the strategy `by_configuration`. In the table sorted.
    configured: tuple[TopicQueueId, ...] = ()

    def without(self, topic_id: int) -> MemberDetails:
        """Return a copy of the member's details without the subscription to this topic and without the topic's
        configured queues."""
        return replace(
            self,
            subscriptions=tuple(each for each in self.subscriptions if each[0] != topic_id),
            configured=tuple(queue for queue in self.configured if queue.topic_id != topic_id),
        )


@dataclass(slots=True)
class MemberRecord:
    """A member of a consumer group."""

    details: MemberDetails
    # Index of the last entry that changed the member's assignment.
    version: int
    # The queues that the member owns (a dict, because a set has no order).
    owned: dict[TopicQueueId, None] = field(default_factory=dict)


@dataclass(slots=True)
class QueueShare:
    """The owner and the target of one queue of a consumer group. The target is the member that the last assignment
    chose. An empty name means that the queue has no owner or no target."""

    owner: str
    epoch: int
    target: str


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """What the owner of an assigned queue is told about the queue. `is_leaving` means that the owner must release
    the queue."""

    queue: TopicQueueId
    epoch: int
    is_leaving: bool


class ConsumerGroup:
    """A consumer group with at least one member."""

    def __init__(self, name: str, strategy: str) -> None:
        self.name = name
        self.strategy = strategy
        # Index of the last entry that changed members or subscriptions.
        self.generation = 0
        # The generation of the last assignment.
        self.assigned = 0
        self.members: dict[str, MemberRecord] = {}
        self.shares: dict[TopicQueueId, QueueShare] = {}
        # The subscriptions of `members`.
        self._subscribed = SubscribedQueues()
        # Shard -> machine room of the node that leads it, as a member reported last. Empty if the strategy does not use
        # rooms.
        self.rooms: dict[int, str] = {}

    @property
    def queues(self) -> Mapping[int, int]:
        """Topic id -> number of queues; of different numbers that members report, the largest."""
        return self._subscribed.most

    def queues_with(self, details: MemberDetails) -> int:
        """Return how many queues all topics would have together if this member joined with these details."""
        known = self.members.get(details.member)
        return self._subscribed.total_with(details.subscriptions, known.details.subscriptions if known else ())

    def view(self, member: str) -> list[OwnedQueue]:
        """Return the queues that this member owns, sorted by topic and queue."""
        owned = ((queue, self.shares[queue]) for queue in sorted(self.members[member].owned))
        return [OwnedQueue(queue, share.epoch, share.target != member) for queue, share in owned]

    # -- changes; `index` is the index of the entry that makes the change, above the floor of the coordinator

    def join(self, strategy: str, details: MemberDetails, index: int, rooms: Mapping[int, str] = NO_ROOMS) -> bool:
        """Add a member, or change its details. Returns True if the consumer group changed."""
        knew_rooms = rooms.items() <= self.rooms.items()
        self.rooms.update(rooms)
        known = self.members.get(details.member)
        if known is None:
            self.members[details.member] = MemberRecord(details, index)
            self._subscribed.add(details.subscriptions)
        elif known.details == details and self.strategy == strategy and knew_rooms:
            return False
        else:
            self._subscribed.remove(known.details.subscriptions)
            self._subscribed.add(details.subscriptions)
            known.details = details
        self.strategy = strategy
        self.generation = index
        return True

    def leave(self, members: Iterable[str], index: int) -> bool:
        """Remove members. If the target of a removed member's queue is still a member, the target becomes the owner
        of the queue. If the target is not a member any more, the queue waits for the next assignment. Return True
        if any of the given members existed."""
        gone = [self.members.pop(member) for member in members if member in self.members]
        for queue in [queue for member in gone for queue in member.owned]:
            self.shares[queue].owner = ""
            self._give(queue, self.shares[queue], index)
        for member in gone:
            self._subscribed.remove(member.details.subscriptions)
        if gone:
            self.generation = index
        return bool(gone)

    def put(self, member: MemberRecord) -> None:
        """Add a member that a snapshot contains."""
        self.members[member.details.member] = member
        self._subscribed.add(member.details.subscriptions)

    def assign(self, targets: Mapping[TopicQueueId, str], index: int, *, goes_on: bool = False) -> None:
        """Set the targets of the given queues. An empty target means that the consumer group no longer reads the
        queue. Other queues keep their targets. `goes_on` means that another command with more targets of the same
        assignment follows."""
        for queue, target in targets.items():
            share = self.shares.get(queue)
            if share is None:
                share = self.shares[queue] = QueueShare("", 0, "")
            self._aim(queue, share, target, index)
        if not goes_on:
            self.assigned = self.generation

    def release(self, member: str, queues: Iterable[tuple[TopicQueueId, int]], index: int) -> bool:
        """Remove queues from a member that releases them. `queues` has each queue and the epoch by which the member
        owns the queue. If the target of a queue is this member, the member keeps the queue. Return True if the
        consumer group changed."""
        released = False
        for queue, epoch in queues:
            share = self.shares.get(queue)
            if share is not None and (share.owner, share.epoch) == (member, epoch) and share.target != member:
                del self.members[member].owned[queue]
                self.members[member].version = index
                share.owner = ""
                self._give(queue, share, index)
                released = True
        return released

    def forget_topic(self, topic_id: int, index: int) -> None:
        """Remove all subscriptions to a deleted topic, and all owners of the topic's queues."""
        if topic_id not in self.queues:
            return
        for member in self.members.values():
            member.details = member.details.without(topic_id)
        for queue in [queue for queue in self.shares if queue.topic_id == topic_id]:
            owner = self.members.get(self.shares.pop(queue).owner)
            if owner is not None:
                del owner.owned[queue]
                owner.version = index
        self._subscribed.forget(topic_id)
        self.generation = index

    def renew(self, queues: Iterable[TopicQueueId], index: int) -> bool:
        """Give the owners of the given queues a new epoch. Returns True if any of the queues has an owner."""
        owned = [share for queue in queues if (share := self.shares.get(queue)) is not None and share.owner]
        for share in owned:
            share.epoch = self.members[share.owner].version = index
        return bool(owned)

    def _aim(self, queue: TopicQueueId, share: QueueShare, target: str, index: int) -> None:
        was, share.target = share.target, target
        if not share.owner:
            self._give(queue, share, index)
        elif (was == share.owner) != (target == share.owner):
            self.members[share.owner].version = index

    def _give(self, queue: TopicQueueId, share: QueueShare, index: int) -> None:
        """Make the target of a queue without owner its owner, if the target is a member. If the queue has no
        target, remove the queue from the consumer group."""
        if not share.target:
            del self.shares[queue]
        elif (target := self.members.get(share.target)) is not None:
            share.owner, share.epoch = share.target, index
            target.owned[queue] = None
            target.version = index


class ConsumerGroupTable:
    """All consumer groups that have members, by name."""

    def __init__(self, groups: Iterable[ConsumerGroup] = ()) -> None:
        self._groups = {group.name: group for group in groups}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        """Yield the consumer groups, sorted by name."""
        return iter(sorted(self._groups.values(), key=lambda group: group.name))

    def get(self, name: str) -> ConsumerGroup | None:
        return self._groups.get(name)

    def join(
        self, name: str, strategy: str, details: MemberDetails, index: int, rooms: Mapping[int, str] = NO_ROOMS
    ) -> bool:
        """Add a member, or change its details. Returns True if the consumer group changed. Raises
        GroupConflictError, GroupFullError."""
        group = self._groups.get(name) or ConsumerGroup(name, strategy)
        self._check(group, strategy, details)
        self._groups[name] = group
        return group.join(strategy, details, index, rooms)

    def leave(self, name: str, members: Iterable[str], index: int) -> bool:
        """Remove members. Returns True if any of the given members existed."""
        group = self._groups.get(name)
        left = group is not None and group.leave(members, index)
        if group is not None and not group.members:
            del self._groups[name]
        return left

    def remove(self, name: str) -> bool:
        """Remove a consumer group with its members. Returns True if it had members."""
        return self._groups.pop(name, None) is not None

    def forget_topic(self, topic_id: int, version: Callable[[str], int]) -> None:
        """Remove a deleted topic from all consumer groups. `version(name)` is that of a group after this entry."""
        for group in self._groups.values():
            group.forget_topic(topic_id, version(group.name))

    def _check(self, group: ConsumerGroup, strategy: str, details: MemberDetails) -> None:
        others = len(group.members) - (details.member in group.members)
        if others and strategy != group.strategy:
            raise GroupConflictError(
                f"The members of consumer group {group.name!r} use the strategy {group.strategy!r}, not "
                f"{strategy!r}: use the "
                "same strategy, or stop the other members first."
            )
        if group.name not in self._groups and len(self) >= MAX_CONSUMER_GROUPS:
            raise GroupFullError(f"There are {len(self)} consumer groups with members already, which is the limit.")
        if others >= MAX_MEMBERS:
            raise GroupFullError(f"Consumer group {group.name!r} has {others} members already, which is the limit.")
        if len(details.subscriptions) > MAX_SUBSCRIPTIONS:
            raise GroupFullError(
                f"A member can subscribe to at most {MAX_SUBSCRIPTIONS} topics, not {len(details.subscriptions)}."
            )
        if len(details.configured) > MAX_CONFIGURED:
            raise GroupFullError(
                f"A member can be configured with at most {MAX_CONFIGURED} queues, not {len(details.configured)}."
            )
        if group.queues_with(details) > MAX_QUEUES:
            raise GroupFullError(f"The topics of consumer group {group.name!r} have more than {MAX_QUEUES} queues.")

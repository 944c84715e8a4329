"""The consumer groups that this shard coordinates: their members, and who consumes which queue.

    target   A A B B C C        what the last assignment wants
    owner    A A A B - C        who has the queue: A is to let go of the third one, the fifth is free
    epoch    7 7 7 9 9 12       index of the entry by which the owner got it

A queue that is to go elsewhere stays with its owner until that member releases it, leaves, or is given up;
only then the target becomes its owner, by a new epoch. So two members never believe that they may consume one queue,
and what a late one still does is fenced where the offsets are (`progress_table`). Generations, epochs and versions are
indexes of entries: they rise by themselves, and need not be remembered where a consumer group has gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from ledger.consumer_groups import MAX_CONFIGURED, MAX_CONSUMER_GROUPS, MAX_MEMBERS, MAX_QUEUES, MAX_SUBSCRIPTIONS
from ledger.errors import GroupConflictError, GroupFullError

NO_ROOMS: Mapping[int, str] = MappingProxyType({})


class TopicQueueId(NamedTuple):
    topic_id: int
    queue: int


@dataclass(frozen=True, slots=True)
class Membership:
    """What a member tells of itself."""

    member: str
    client_id: str
    room: str
    session_timeout_ms: int
    # (topic id, how many queues it has as the member knows), by topic id.
    subscriptions: tuple[tuple[int, int], ...]
    # What it is to consume, where queues are assigned by configuration; sorted.
    configured: tuple[TopicQueueId, ...] = ()

    def without(self, topic_id: int) -> Membership:
        """The same, but for that topic."""
        return replace(
            self,
            subscriptions=tuple(each for each in self.subscriptions if each[0] != topic_id),
            configured=tuple(queue for queue in self.configured if queue.topic_id != topic_id),
        )


@dataclass(slots=True)
class MemberRecord:
    told: Membership
    # Index of the last entry that changed what is its own.
    version: int
    owned: dict[TopicQueueId, None] = field(default_factory=dict)


@dataclass(slots=True)
class Share:
    """One queue of a consumer group. The empty name stands for nobody."""

    owner: str
    epoch: int
    target: str


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """A queue as its owner sees it."""

    queue: TopicQueueId
    epoch: int
    is_leaving: bool


class ConsumerGroup:
    """With at least one member."""

    def __init__(self, name: str, strategy: str) -> None:
        self.name = name
        self.strategy = strategy
        # Index of the last entry that changed members or subscriptions.
        self.generation = 0
        # The generation of the last assignment.
        self.assigned = 0
        self.members: dict[str, MemberRecord] = {}
        self.shares: dict[TopicQueueId, Share] = {}
        # Topic id -> how many queues, as the best informed member knows.
        self.queues: dict[int, int] = {}
        # shard -> the machine room of the node that leads it, as a member told last. Empty where that does not matter
        # for the strategy.
        self.rooms: dict[int, str] = {}

    def view(self, member: str) -> list[OwnedQueue]:
        """All that is this member's, in the order of topics and queues."""
        owned = ((queue, self.shares[queue]) for queue in sorted(self.members[member].owned))
        return [OwnedQueue(queue, share.epoch, share.target != member) for queue, share in owned]

    # -- changes, each by the entry of that index

    def join(self, strategy: str, told: Membership, index: int, rooms: Mapping[int, str] = NO_ROOMS) -> bool:
        """Whether it is new, or tells something new, of itself or of rooms."""
        knew_rooms = rooms.items() <= self.rooms.items()
        self.rooms.update(rooms)
        known = self.members.get(told.member)
        if known is None:
            self.members[told.member] = MemberRecord(told, index)
            _count(self.queues, told.subscriptions)
        elif known.told == told and self.strategy == strategy and knew_rooms:
            return False
        else:
            known.told = told
            self.count_queues()
        self.strategy = strategy
        self.generation = index
        return True

    def leave(self, members: Iterable[str], index: int) -> bool:
        """Their queues go to whom they are meant for, or wait for the next assignment. Returns whether there were any
        of these members."""
        gone = [self.members.pop(member) for member in members if member in self.members]
        for queue in [queue for member in gone for queue in member.owned]:
            self.shares[queue].owner = ""
            self._give(queue, self.shares[queue], index)
        if gone:
            self.generation = index
            self.count_queues()
        return bool(gone)

    def count_queues(self) -> None:
        """Again, of what the members told."""
        self.queues = {}
        for subscriptions in {member.told.subscriptions: None for member in self.members.values()}:
            _count(self.queues, subscriptions)

    def queues_but_of(self, member: str) -> dict[int, int]:
        """Topic id -> how many queues, as the others know."""
        if member not in self.members:
            return dict(self.queues)
        others = (each.told.subscriptions for name, each in self.members.items() if name != member)
        queues: dict[int, int] = {}
        for subscriptions in dict.fromkeys(others):
            _count(queues, subscriptions)
        return queues

    def assign(self, targets: Mapping[TopicQueueId, str], index: int, *, goes_on: bool = False) -> None:
        """These queues are to go to these members; those of the empty name are not wanted any more. All others stay
        as they are. `goes_on`: the same assignment has more."""
        for queue, target in targets.items():
            share = self.shares.get(queue)
            if share is None:
                share = self.shares[queue] = Share("", 0, "")
            self._aim(queue, share, target, index)
        if not goes_on:
            self.assigned = self.generation

    def release(self, member: str, queues: Iterable[tuple[TopicQueueId, int]], index: int) -> bool:
        """The member has finished with these, which it had by these epochs. What it is to keep it keeps. Returns
        whether anything changed."""
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
        """Nobody has subscribed to it, and nobody owns a queue of it."""
        if topic_id not in self.queues:
            return
        for member in self.members.values():
            member.told = member.told.without(topic_id)
        for queue in [queue for queue in self.shares if queue.topic_id == topic_id]:
            owner = self.members.get(self.shares.pop(queue).owner)
            if owner is not None:
                del owner.owned[queue]
                owner.version = index
        self.count_queues()
        self.generation = index

    def renew(self, queues: Iterable[TopicQueueId], index: int) -> bool:
        """Their owners keep them, by a new epoch. Returns whether there are any."""
        owned = [share for queue in queues if (share := self.shares.get(queue)) is not None and share.owner]
        for share in owned:
            share.epoch = self.members[share.owner].version = index
        return bool(owned)

    def _aim(self, queue: TopicQueueId, share: Share, target: str, index: int) -> None:
        was, share.target = share.target, target
        if not share.owner:
            self._give(queue, share, index)
        elif (was == share.owner) != (target == share.owner):
            self.members[share.owner].version = index

    def _give(self, queue: TopicQueueId, share: Share, index: int) -> None:
        """A queue that nobody has goes to its target, where there is one."""
        if not share.target:
            del self.shares[queue]
        elif (target := self.members.get(share.target)) is not None:
            share.owner, share.epoch = share.target, index
            target.owned[queue] = None
            target.version = index


def _count(queues: dict[int, int], subscriptions: Iterable[tuple[int, int]]) -> None:
    """The largest number of queues counts that is told of a topic."""
    for topic_id, count in subscriptions:
        queues[topic_id] = max(queues.get(topic_id, 0), count)


class ConsumerGroupTable:
    """Every consumer group that has members, by name."""

    def __init__(self, groups: Iterable[ConsumerGroup] = ()) -> None:
        self._groups = {group.name: group for group in groups}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        """In the order of their names."""
        return iter(sorted(self._groups.values(), key=lambda group: group.name))

    def get(self, name: str) -> ConsumerGroup | None:
        return self._groups.get(name)

    def join(self, name: str, strategy: str, told: Membership, index: int, rooms: Mapping[int, str] = NO_ROOMS) -> bool:
        """Whether that changed anything. Raises GroupConflictError, GroupFullError: it did not."""
        group = self._groups.get(name) or ConsumerGroup(name, strategy)
        self._check(group, strategy, told)
        self._groups[name] = group
        return group.join(strategy, told, index, rooms)

    def leave(self, name: str, members: Iterable[str], index: int) -> bool:
        """Whether there were such members."""
        group = self._groups.get(name)
        left = group is not None and group.leave(members, index)
        if group is not None and not group.members:
            del self._groups[name]
        return left

    def forget_topic(self, topic_id: int, index: int) -> None:
        """It has been deleted."""
        for group in self._groups.values():
            group.forget_topic(topic_id, index)

    def _check(self, group: ConsumerGroup, strategy: str, told: Membership) -> None:
        others = len(group.members) - (told.member in group.members)
        if others and strategy != group.strategy:
            raise GroupConflictError(
                f"The members of consumer group {group.name!r} assign queues by {group.strategy!r}: stop them first, "
                "or join by the same."
            )
        if group.name not in self._groups and len(self) >= MAX_CONSUMER_GROUPS:
            raise GroupFullError(f"There are {len(self)} consumer groups with members already, as many as may be.")
        if others >= MAX_MEMBERS:
            raise GroupFullError(f"Consumer group {group.name!r} has {others} members already, as many as may be.")
        if len(told.subscriptions) > MAX_SUBSCRIPTIONS:
            raise GroupFullError(
                f"A member can subscribe to {MAX_SUBSCRIPTIONS} topics, not {len(told.subscriptions)}."
            )
        if len(told.configured) > MAX_CONFIGURED:
            raise GroupFullError(
                f"A member can be configured with {MAX_CONFIGURED} queues, not {len(told.configured)}."
            )
        queues = group.queues_but_of(told.member)
        _count(queues, told.subscriptions)
        if sum(queues.values()) > MAX_QUEUES:
            raise GroupFullError(f"The topics of consumer group {group.name!r} have more than {MAX_QUEUES} queues.")

"""An assignment strategy chooses, for each queue, the member of the consumer group that consumes the queue.

    average               each topic evenly, in runs of neighbouring queues, with as few moves as possible (balance.py)
    circle                in turns: the first queue to the first member, the second queue to the second member, ...
    consistent_hash       to the next member on a ring of hashes, so few queues move when members change
    machine_room          evenly among the members in the queue's room; queues in a room without members wait
    nearest_machine_room  the same, but queues in a room without members are shared by all members
    by_configuration      to the member that is configured with the queue; other queues wait. A topic without configured
                          queues, such as a retry topic, is assigned by average

An assignment is a pure function of the members, the present owners and the machine rooms, so every leader computes the
same assignment. Only subscribers of a topic receive its queues. If the machine room of a queue is not known, the queue
can be assigned to any member.

With thousands of members and queues, it takes a tenth of a second or more to compute an assignment. The computation
runs in steps, and other tasks of the node run between two steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from ledger.broker.consumer_groups.balance import Pool, balance
from ledger.hashing import key_hash
from ledger.state.consumer_group_table import ConsumerGroup, TopicQueueId

# Points of each member on the ring; RocketMQ's value.
VIRTUAL_NODES = 10
# Queues or members that one step handles. A step takes about a millisecond.
STEP = 500

T = TypeVar("T")
Assignment = dict[TopicQueueId, str]
# Yields after each step, and returns an assignment.
Steps = Generator[None, None, Assignment]
# Queue -> the machine room of the node that leads its shard; "" or None if it is not known.
Rooms = Callable[[TopicQueueId], str | None]


def nowhere(_: TopicQueueId) -> None:
    """Return None for every queue, because no machine room is known."""


def assign(group: ConsumerGroup, rooms: Rooms = nowhere) -> Assignment:
    """Assign the queues of a consumer group by its strategy, and return the member of each queue. The result does
    not contain queues for which the strategy has no member."""
    steps = assigning(group, rooms)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assignment: Assignment = end.value
            return assignment


def assigning(group: ConsumerGroup, rooms: Rooms = nowhere) -> Steps:
    """Compute the assignment in steps. Members can release queues between two steps. If the members of the group
    change between two steps, the caller must discard this computation and begin a new one."""
    pools = yield from _pools(group)
    match group.strategy:
        case "average":
            return (yield from balance(pools, group.shares))
        case "circle":
            return (yield from _in_circle(pools))
        case "consistent_hash":
            return (yield from _on_ring(pools))
        case "machine_room":
            pools = yield from _by_room(pools, group, rooms, else_all=False)
            return (yield from balance(pools, group.shares))
        case "nearest_machine_room":
            pools = yield from _by_room(pools, group, rooms, else_all=True)
            return (yield from balance(pools, group.shares))
        case "by_configuration":
            named = {queue.topic_id for member in group.members.values() for queue in member.details.configured}
            others = [Pool(pool.members, rest) for pool in pools if (rest := _not_of(named, pool.queues))]
            configured = yield from _as_configured(pools, group)
            return configured | (yield from balance(others, group.shares))
    raise AssertionError(f"a consumer group cannot have the strategy {group.strategy!r}")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a sequence into slices of at most STEP items, one slice for each step of the computation."""
    return (items[first : first + STEP] for first in range(0, len(items), STEP))


def _pools(group: ConsumerGroup) -> Generator[None, None, list[Pool]]:
    """Group the queues into pools. All queues of a pool belong to topics with the same subscribers."""
    subscribers: defaultdict[int, list[str]] = defaultdict(list)
    for some in slices(sorted(group.members)):
        for name in some:
            for topic_id, _ in group.members[name].details.subscriptions:
                subscribers[topic_id].append(name)
        yield
    queues: defaultdict[tuple[str, ...], list[TopicQueueId]] = defaultdict(list)
    for topic_id, members in sorted(subscribers.items()):
        queues[tuple(members)] += [TopicQueueId(topic_id, queue) for queue in range(group.queues[topic_id])]
        yield
    return [Pool(members, tuple(each)) for members, each in queues.items() if each]


def _by_room(
    pools: Iterable[Pool], group: ConsumerGroup, rooms: Rooms, *, else_all: bool
) -> Generator[None, None, list[Pool]]:
    """Divide each pool by machine room, so that only the members in a room consume the queues of that room. With
    `else_all`, all members of the pool share the queues of a room without members. Without `else_all`, no member
    receives the queues of a room without members."""
    parts: defaultdict[tuple[str, ...], list[TopicQueueId]] = defaultdict(list)
    for pool in pools:
        members: defaultdict[str, list[str]] = defaultdict(list)
        for member in pool.members:
            members[group.members[member].details.room].append(member)
        yield
        queues: defaultdict[str, list[TopicQueueId]] = defaultdict(list)
        for some in slices(pool.queues):
            for queue in some:
                room = rooms(queue) or ""
                queues["" if else_all and room not in members else room].append(queue)
            yield
        near = {**{room: tuple(each) for room, each in members.items()}, "": pool.members}
        for room, each in queues.items():
            if room in near:
                parts[near[room]] += each
    return [Pool(members, tuple(sorted(queues))) for members, queues in parts.items()]


def _in_circle(pools: Iterable[Pool]) -> Steps:
    """Assign the queues to the members in turn. RocketMQ's AllocateMessageQueueAveragelyByCircle begins each topic
    with the first member. This function continues the turns from one topic of a pool to the next topic."""
    assignment: Assignment = {}
    for pool in pools:
        for some in slices(tuple(enumerate(pool.queues))):
            assignment.update((queue, pool.members[place % len(pool.members)]) for place, queue in some)
            yield
    return assignment


def _on_ring(pools: Sequence[Pool]) -> Steps:
    points: dict[str, list[int]] = {}
    for members in slices(tuple({member: None for pool in pools for member in pool.members})):
        for member in members:
            points[member] = [key_hash(f"{member}#{node}".encode()) for node in range(VIRTUAL_NODES)]
        yield
    assignment: Assignment = {}
    for pool in pools:
        hashes = np.array([points[member] for member in pool.members], dtype=np.uint64).ravel()
        order = np.argsort(hashes, kind="stable")  # of two equal hashes, the first member by name comes first
        ring = hashes[order]
        yield
        for some in slices(pool.queues):
            wanted = np.array([key_hash(f"{queue.topic_id}:{queue.queue}".encode()) for queue in some], dtype=np.uint64)
            places = order[np.searchsorted(ring, wanted) % len(ring)] // VIRTUAL_NODES
            assignment.update(zip(some, map(pool.members.__getitem__, places.tolist()), strict=True))
            yield
    return assignment


def _not_of(topics: Collection[int], queues: Iterable[TopicQueueId]) -> tuple[TopicQueueId, ...]:
    return tuple(queue for queue in queues if queue.topic_id not in topics)


def _as_configured(pools: Iterable[Pool], group: ConsumerGroup) -> Steps:
    """Assign each queue to the member that is configured with it. If several members are configured with a queue,
    its present owner keeps the queue. If no configured member owns the queue, the first configured member by name
    gets the queue."""
    assignment: Assignment = {}
    for pool in pools:
        existing = frozenset(pool.queues)
        for member in pool.members:
            for queue in group.members[member].details.configured:
                share = group.shares.get(queue)
                has_it = share is not None and member == (share.target or share.owner)
                if queue in existing and (has_it or queue not in assignment):
                    assignment[queue] = member
            yield
    return assignment

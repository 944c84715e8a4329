"""Which member of a consumer group is to consume which queue: the strategies, by name.

    average               each topic evenly, in runs of neighbours, and as few moves as that takes (balance.py)
    circle                in turns: the first queue to the first member, the second to the second, ...
    consistent_hash       the next of the members' points on a ring of hashes: only what must move does
    machine_room          evenly among the members in the queue's room; queues of a room without members wait
    nearest_machine_room  the same; but queues of a room without members go to all
    by_configuration      to the member that is configured with it; others wait. Topics of which no queue is configured,
                          as those for retries: as by average

A pure function of what the members tell and of who has what, so that it can be computed by whoever leads, and the
same again. Whoever subscribes to a topic may get its queues, nobody else. Where a queue's room is not known, it
counts as near to all.

With thousands of members and queues it takes a tenth of a second and more, so it goes in steps, between which others
have their turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from ledger.broker.consumer_groups.balance import Pool, balance
from ledger.hashing import key_hash
from ledger.state.consumer_group_table import ConsumerGroup, TopicQueueId

VIRTUAL_NODES = 10
"""Points of each member on the ring, as RocketMQ has them."""
STEP = 500
"""Queues, or members, of which a step takes care: a millisecond or so."""

T = TypeVar("T")
Assignment = dict[TopicQueueId, str]
Steps = Generator[None, None, Assignment]
"""An assignment, once it has gone through."""
Rooms = Callable[[TopicQueueId], str | None]
"""Queue -> the machine room of the node that leads its shard; "" or None: not known."""


def nowhere(_: TopicQueueId) -> None:
    """No room is known."""


def assign(group: ConsumerGroup, rooms: Rooms = nowhere) -> Assignment:
    """The member of each queue that the consumer group reads, by the shard's own strategy. Queues that are to wait are
    not in it."""
    steps = assigning(group, rooms)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assignment: Assignment = end.value
            return assignment


def assigning(group: ConsumerGroup, rooms: Rooms = nowhere) -> Steps:
    """The same in steps. Between them queues may be released; where members come or go, it is not to go on."""
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
    raise AssertionError(f"nobody could join by {group.strategy!r}")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """For one step each."""
    return (items[first : first + STEP] for first in range(0, len(items), STEP))


def _pools(group: ConsumerGroup) -> Generator[None, None, list[Pool]]:
    """The queues of topics with the same subscribers together."""
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
    """Smaller pools: of each room. `else_all`: of a room without members, all may have the queues; else nobody."""
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
    """As RocketMQ's AllocateMessageQueueAveragelyByCircle, but once round all topics of a pool, not anew for each."""
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
        order = np.argsort(hashes, kind="stable")  # of two equal ones, that of the first member by name comes first
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
    """Where several are configured with a queue, the one that has it keeps it; else the first by name gets it."""
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

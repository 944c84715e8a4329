"""Queues dealt to members: each topic evenly, all topics together evenly, and with as few moves as that takes.

    held        a a a a a . . c       b has come, and two queues are free
    filled      a a a a a b b c       free ones go to whoever has least, in runs of neighbours
    levelled    a a a b c b b c       then whoever has most gives to whoever has least, while that is two fewer

It goes step by step, a topic in each: topics have few queues enough that a step is short.

Each topic is levelled by itself, since topics differ in what a queue of them costs, and many are idle. Then who has
the odd queues of a topic is settled by what members have of all topics, else those with the first names would have
them all: odd queues move while that lessens a difference of two, so each move lowers the sum of the squares of all
loads, and that ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import groupby

from ledger.state.consumer_group_table import QueueShare, TopicQueueId


@dataclass(frozen=True, slots=True)
class Pool:
    """Queues that the same members may consume; at least one of each, both sorted."""

    members: tuple[str, ...]
    queues: tuple[TopicQueueId, ...]


def balance(
    pools: Sequence[Pool], shares: Mapping[TopicQueueId, QueueShare]
) -> Generator[None, None, dict[TopicQueueId, str]]:
    """Returns, after some steps, the member of each queue of the pools, no queue being in two of them; `shares` tells
    who has or awaits what now.

    Of one topic in one pool nobody has two more than another member; and of all together only where that other one has
    no fewer of this topic.
    """
    loads: Counter[str] = Counter({member: 0 for pool in pools for member in pool.members})
    # Those with the least choice first, so that they find the others' members empty.
    parts = sorted(_by_topic(pools), key=lambda part: (len(part.members), part.queues))
    deals = []
    for part in parts:
        deals.append(_Deal(part, shares, loads))
        yield
    for deal in deals:
        deal.fill()
        deal.level()
        yield
    moved = 1
    while moved:
        least, moved = min(loads.values(), default=0), 0  # and never less: whoever gives keeps more than the other had
        for deal in deals:
            moved += deal.swap_odd(least)
            yield
    assignment: dict[TopicQueueId, str] = {}
    for deal in deals:
        assignment.update((queue, member) for member, queues in deal.held.items() for queue in queues)
        yield
    return assignment


def _by_topic(pools: Sequence[Pool]) -> Iterator[Pool]:
    for pool in pools:
        for _, queues in groupby(pool.queues, key=lambda queue: queue.topic_id):
            yield Pool(pool.members, tuple(queues))


class _Deal:
    """One topic of a pool, being dealt."""

    def __init__(self, pool: Pool, shares: Mapping[TopicQueueId, QueueShare], loads: Counter[str]) -> None:
        self._members = pool.members
        self._loads = loads
        """Of all deals."""
        self.held: defaultdict[str, list[TopicQueueId]] = defaultdict(list)
        """Member -> its queues; those come last that are easiest to part with, as it does not have them yet."""
        self._free: list[TopicQueueId] = []
        self._take_up(pool, shares)

    def fill(self) -> None:
        """What nobody holds goes to whoever has least."""
        if not self._free:
            return
        least = self._by_count()
        gains: Counter[str] = Counter()
        for _ in self._free:
            count, load, member = least[0]
            gains[member] += 1
            heapreplace(least, (count + 1, load + 1, member))
        self._hand_out(gains)

    def level(self) -> None:
        """Who gives has two more than who takes, so nobody does both."""
        fewest, largest = self._range()
        if largest - fewest < 2:
            return
        least = self._by_count()
        most = [(-len(queues), -self._loads[member], member) for member, queues in self.held.items()]
        heapify(most)
        gains: Counter[str] = Counter()
        while -most[0][0] - least[0][0] >= 2:
            (count, load, taker), (negative, negative_load, giver) = least[0], most[0]
            gains[taker] += 1
            heapreplace(least, (count + 1, load + 1, taker))
            heapreplace(most, (negative + 1, negative_load + 1, giver))
            self._give_up(giver)
        self._hand_out(gains)

    def swap_odd(self, least: int) -> int:
        """How many members gave the one queue that others have not, to one with two fewer of all topics. Nobody has
        fewer than `least`."""
        fewest, largest = self._range()
        odd = [member for member, queues in self.held.items() if len(queues) > fewest]
        if largest == fewest or max(self._loads[member] for member in odd) - least < 2:
            return 0
        givers = sorted(odd, key=lambda member: (-self._loads[member], member))
        takers = sorted((self._loads[each], each) for each in self._members if len(self.held.get(each, ())) == fewest)
        pairs = [
            (giver, taker)
            for giver, (load, taker) in zip(givers, takers, strict=False)
            if self._loads[giver] - load >= 2
        ]
        for giver, _ in pairs:
            self._give_up(giver)
        self._hand_out(Counter(taker for _, taker in pairs))
        return len(pairs)

    def _take_up(self, pool: Pool, shares: Mapping[TopicQueueId, QueueShare]) -> None:
        members = frozenset(pool.members)
        awaited: list[tuple[str, TopicQueueId]] = []
        for queue in pool.queues:
            share = shares.get(queue)
            if share is not None and share.target in members:
                awaited.append((share.target, queue))
            elif share is not None and share.owner in members:
                awaited.append((share.owner, queue))
            else:
                self._free.append(queue)
        for member, queue in sorted(awaited, key=lambda each: shares[each[1]].owner != each[0]):
            self.held[member].append(queue)
            self._loads[member] += 1

    def _range(self) -> tuple[int, int]:
        """How many queues members have here, at least and at most."""
        counts = [len(queues) for queues in self.held.values()]
        return (0 if len(counts) < len(self._members) else min(counts)), max(counts)

    def _by_count(self) -> list[tuple[int, int, str]]:
        """A heap of how many queues each member has, here and of all topics."""
        counts = [(len(self.held.get(member, ())), self._loads[member], member) for member in self._members]
        heapify(counts)
        return counts

    def _give_up(self, member: str) -> None:
        self._free.append(self.held[member].pop())
        self._loads[member] -= 1

    def _hand_out(self, gains: Counter[str]) -> None:
        """The free ones in their order, so that each member gets neighbours."""
        queues = iter(sorted(self._free))
        for member, count in sorted(gains.items()):
            self.held[member].extend(queue for _, queue in zip(range(count), queues, strict=False))
            self._loads[member] += count
        self._free.clear()

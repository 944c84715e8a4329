"""Balances queues among members: evenly within each topic, evenly over all topics, and with as few moves as possible.

    held        a a a a a . . c       member b has joined, and two queues are free
    filled      a a a a a b b c       free queues go to the members with the fewest queues, in runs of neighbours
    levelled    a a a b c b b c       then the member with the most gives to the member with the fewest, while they
                                      differ by two or more

Each step of the computation handles one topic. A topic has so few queues that a step is short.

The queues of each topic are balanced separately, because a queue of one topic can cause more work than a queue of
another topic. If the queues of a topic cannot be divided evenly, some members have one queue more. An extra queue
then moves from a member with more queues in total to a member that has at least two queues fewer in total. Each
move lowers the sum of the squares of the members' queue counts, so the moves end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import groupby

from ledger.state.consumer_group_table import QueueShare, TopicQueueId


@dataclass(frozen=True, slots=True)
class Pool:
    """A set of queues, and the members that can consume all of these queues. Queues and members are sorted, and
    neither list is empty."""

    members: tuple[str, ...]
    queues: tuple[TopicQueueId, ...]


def balance(
    pools: Sequence[Pool], shares: Mapping[TopicQueueId, QueueShare]
) -> Generator[None, None, dict[TopicQueueId, str]]:
    """Compute the member of each queue, in steps, and return the assignment. Each queue is in one pool only. `shares`
    has the present owner and target of each queue. In the result, two members of a pool differ by at most one queue in
    each topic. Over all topics, two members differ by two queues or more only if no extra queue can move between them.
    """
    loads: Counter[str] = Counter({member: 0 for pool in pools for member in pool.members})
    # The parts with the fewest members first, because they have the least choice.
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
        least, moved = min(loads.values(), default=0), 0  # it never decreases: a giver keeps more than the taker had
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
    """`_Deal` balances the queues of one topic among the members of its pool."""

    def __init__(self, pool: Pool, shares: Mapping[TopicQueueId, QueueShare], loads: Counter[str]) -> None:
        self._members = pool.members
        # Member -> its number of queues in all deals.
        self._loads = loads
        # Member -> its queues. The queues that it does not own yet come last, because they are given away first.
        self.held: defaultdict[str, list[TopicQueueId]] = defaultdict(list)
        self._free: list[TopicQueueId] = []
        self._take_up(pool, shares)

    def fill(self) -> None:
        """Give the free queues to the members with the fewest queues."""
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
        """Move queues of this topic until no two members differ by more than one queue. The moves stop at a
        difference of one queue, so no member gives away one queue and receives another queue."""
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
        """Move extra queues of this topic to members with at least two queues fewer in total, and return the number
        of moves. `least` is the smallest total number of queues of a member."""
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
        """Return the smallest and the largest number of this topic's queues that a member has."""
        counts = [len(queues) for queues in self.held.values()]
        return (0 if len(counts) < len(self._members) else min(counts)), max(counts)

    def _by_count(self) -> list[tuple[int, int, str]]:
        """Return a heap with one tuple for each member: its number of queues of this topic, its total number of
        queues, and its name."""
        counts = [(len(self.held.get(member, ())), self._loads[member], member) for member in self._members]
        heapify(counts)
        return counts

    def _give_up(self, member: str) -> None:
        self._free.append(self.held[member].pop())
        self._loads[member] -= 1

    def _hand_out(self, gains: Counter[str]) -> None:
        """Distribute the free queues in ascending order, so that each member gets neighbouring queues."""
        queues = iter(sorted(self._free))
        for member, count in sorted(gains.items()):
            self.held[member].extend(queue for _, queue in zip(range(count), queues, strict=False))
            self._loads[member] += count
        self._free.clear()

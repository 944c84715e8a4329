"""Queues dealt to members: as evenly as who may consume what allows, with as few moves as that takes.

    held        a a a a a . . c       b has come, and two queues are free
    filled      a a a a a b b c       free ones go to whoever has least, in runs of neighbours
    levelled    a a a b . b b c       then whoever has most gives to whoever has least, while that is two fewer
                        c

The one idea: queues with the same possible members are a *pool*, and a pool is levelled at once. A member may be in
several pools, so they are levelled in turns until none has anything to move: each move lowers the sum of the squares of
all loads, so that ends. Evenness is of all queues of a member together, not of each topic: else many topics of few
queues would all go to the members with the first names.

It must not know why a member may not consume a queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from ledger.state.consumer_group_table import Share, TopicQueueId


@dataclass(frozen=True, slots=True)
class Pool:
    """Queues that the same members may consume; at least one of each, both sorted."""

    members: tuple[str, ...]
    queues: tuple[TopicQueueId, ...]


def balance(pools: Iterable[Pool], shares: Mapping[TopicQueueId, Share]) -> dict[TopicQueueId, str]:
    """The member of each queue of the pools, no queue being in two of them; `shares` tells who has or awaits what now.

    No member has two more than another one in whose stead it has a queue.
    """
    loads: Counter[str] = Counter()
    # Those with the least choice first, so that they find the others' members empty.
    deals = [_Deal(pool, shares, loads) for pool in sorted(pools, key=lambda pool: (len(pool.members), pool.queues))]
    for deal in deals:
        deal.fill()
    while sum(deal.level() for deal in deals):
        pass
    return {queue: member for deal in deals for member, queues in deal.held.items() for queue in queues}


class _Deal:
    """One pool, being dealt."""

    def __init__(self, pool: Pool, shares: Mapping[TopicQueueId, Share], loads: Counter[str]) -> None:
        self._members = pool.members
        self._loads = loads
        """Of all pools."""
        self.held: defaultdict[str, list[TopicQueueId]] = defaultdict(list)
        """Member -> its queues; those come last that are easiest to part with, as it does not have them yet."""
        self._free: list[TopicQueueId] = []
        self._take_up(pool, shares)

    def fill(self) -> None:
        """What nobody holds goes to whoever has least."""
        least = self._by_load()
        gains: Counter[str] = Counter()
        for _ in self._free:
            load, member = least[0]
            gains[member] += 1
            heapreplace(least, (load + 1, member))
        self._hand_out(gains)

    def level(self) -> int:
        """How many queues moved. Who gives has two more than who takes, so nobody does both."""
        least = self._by_load()
        most = [(-self._loads[member], member) for member, queues in self.held.items() if queues]
        heapify(most)
        gains: Counter[str] = Counter()
        while most and -most[0][0] - least[0][0] >= 2:
            (load, taker), (negative, giver) = least[0], most[0]
            gains[taker] += 1
            heapreplace(least, (load + 1, taker))
            self._free.append(self.held[giver].pop())
            self._loads[giver] -= 1
            if self.held[giver]:
                heapreplace(most, (negative + 1, giver))
            else:
                heappop(most)
        self._hand_out(gains)
        return gains.total()

    def _take_up(self, pool: Pool, shares: Mapping[TopicQueueId, Share]) -> None:
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

    def _by_load(self) -> list[tuple[int, str]]:
        """A heap."""
        loads = [(self._loads[member], member) for member in self._members]
        heapify(loads)
        return loads

    def _hand_out(self, gains: Counter[str]) -> None:
        """The free ones in their order, so that each member gets neighbours."""
        queues = iter(sorted(self._free))
        for member, count in sorted(gains.items()):
            self.held[member].extend(queue for _, queue in zip(range(count), queues, strict=False))
            self._loads[member] += count
        self._free.clear()

"""Finds all half batches of a transaction, when its producer does not name them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.transactions.other_shards import OtherShards
from ledger.state import HalfName


class HalfFinder:
    """Finds half batches in all shards, on the leader of their decision shard."""

    def __init__(self, replica: BrokerReplica, others: OtherShards, shards: Callable[[], list[int]]) -> None:
        """`shards()` returns the numbers of all shards."""
        self._replica = replica
        self._others = others
        self._shards = shards

    async def halves_of(self, transaction: int) -> tuple[HalfName, ...]:
        """Return all half batches of an open transaction of this shard, with the numbers of their shards. A producer
        that still sends may add more. Raises LedgerError if a shard does not answer."""
        shard = self._replica.shard
        own = [HalfName(shard, half.number) for half in self._replica.state.transactions.halves_of(transaction)]
        others = [each for each in self._shards() if each != shard]
        found = await asyncio.gather(*[self._others.find_halves(each, shard, transaction) for each in others])
        elsewhere = [HalfName(each, number) for each, numbers in zip(others, found, strict=True) for number in numbers]
        return (*own, *elsewhere)

"""The transactions of one shard on this node: the parts that end, settle, check and answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.transactions.answering import ShardAnswers
from ledger.broker.transactions.checkers import Checkers
from ledger.broker.transactions.checking import CheckSettings, TransactionChecks
from ledger.broker.transactions.ends import TransactionEnds
from ledger.broker.transactions.finding import HalfFinder
from ledger.broker.transactions.other_shards import OtherShards
from ledger.broker.transactions.settling import HalfSettling


class ShardTransactions:
    """Makes the parts and connects them."""

    def __init__(
        self,
        replica: BrokerReplica,
        checkers: Checkers,
        others: OtherShards,
        shards: Callable[[], list[int]],
        monotonic_s: Callable[[], float],
        settings: CheckSettings,
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """`shards()` returns the numbers of all shards. `monotonic_s` is a clock in seconds. `shared_wait_s` is that of
        the node's runtime: it may make a regular wait a little shorter."""
        self.replica = replica
        self.ends = TransactionEnds(replica)
        self.settling = HalfSettling(replica, others, monotonic_s, shared_wait_s)
        self.answers = ShardAnswers(replica, self.settling)
        self.finder = HalfFinder(replica, others, shards)
        self._checks = TransactionChecks(
            replica, self.ends, self.settling, checkers, self.finder, monotonic_s, settings, shared_wait_s
        )
        self.ends.on_commit = self.settling.look_soon
        replica.on_transaction_news = self.settling.look_soon

    async def run(self) -> None:
        """Settle half batches and check transactions until the task is cancelled."""
        await asyncio.gather(self.settling.run(), self._checks.run())

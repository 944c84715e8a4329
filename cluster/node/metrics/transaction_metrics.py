"""The metrics of transactions, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric

from cluster.node.metrics.definition import SHARDS, SeriesBound, counter, gauge
from ledger.broker.transactions.shard_transactions import ShardTransactions
from ledger.transactions import TransactionOutcome

_LABELS = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ROLLED_BACK: "rolled_back",
    TransactionOutcome.DEAD_LETTERS: "dead_letters",
}

WAITING = gauge(
    "ledgermq_transaction_half_batches", "Half batches that wait for the ends of transactions.", ["shard"], SHARDS
)
WAITING_BYTES = gauge("ledgermq_transaction_half_bytes", "Bytes of the half batches that wait.", ["shard"], SHARDS)
CARRIED = gauge(
    "ledgermq_transaction_commits_under_way",
    "Commits of several half batches that are being carried out.",
    ["shard"],
    SHARDS,
)
OLDEST = gauge(
    "ledgermq_transaction_oldest_seconds",
    "On the leader: how long the oldest half batch waits, in seconds.",
    ["shard"],
    SHARDS,
)
ENDED = counter(
    "ledgermq_transactions_ended_total",
    "Transactions that this leader has ended, by outcome.",
    ["shard", "outcome"],
    SeriesBound(SHARDS.most * len(_LABELS), f"{SHARDS.reason}, {len(_LABELS)} outcomes"),
)

TRANSACTIONS = (WAITING, WAITING_BYTES, CARRIED, OLDEST, ENDED)


class TransactionCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, shards: Callable[[], Iterable[ShardTransactions]]) -> None:
        """At each scrape, `shards()` returns the transactions of the replicas that have started on this node."""
        self._shards = shards

    def collect(self) -> Iterator[Metric]:
        waiting, size, carried, oldest, ended = (definition.family() for definition in TRANSACTIONS)
        for transactions in self._shards():
            replica, table = transactions.replica, transactions.replica.state.transactions
            shard = str(replica.shard)
            waiting.add_metric([shard], len(table.waiting))
            size.add_metric([shard], table.waiting_bytes)
            carried.add_metric([shard], len(table.committed))
            for outcome, label in _LABELS.items():
                ended.add_metric([shard, label], transactions.ends.ended[outcome])
            if replica.knows_the_end:
                first = next(iter(table.waiting.values()), None)
                age_ms = 0 if first is None else max(0, replica.driver.now_ms() - first.since_ms)
                oldest.add_metric([shard], age_ms / 1000)
        yield from (waiting, size, carried, oldest, ended)

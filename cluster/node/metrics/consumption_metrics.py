"""Reads the metrics of consumer groups at each scrape. A node reports the metrics of the shards that it leads.

Only the leader of a queue's shard reports the queue's lag, because a follower can be behind the leader. The number of
time series is bounded: each shard reports at most 5,000 queues, and a metric says how many queues were left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cluster.node.metrics.shared_metrics import shared_metrics
from ledger.broker.consumer_groups.lag import lag_of
from ledger.broker.consumer_groups.shard_consumption import ShardConsumption
from ledger.broker.rpc.consumer_groups import ConsumerGroupService

# The largest number of queues that a shard reports. One queue takes about 30 µs.
MAX_QUEUES = 5_000


class ConsumptionCollector:
    """A Prometheus collector of the metrics of consumer groups, for `CollectorRegistry.register`."""

    def __init__(self, service: ConsumerGroupService, now_ms: Callable[[], int]) -> None:
        self._service = service
        self._now_ms = now_ms

    def collect(self) -> Iterator[Metric]:
        shard_consumptions = list(self._service.shard_consumptions.values())
        yield from self._lags(
            [shard_consumption for shard_consumption in shard_consumptions if shard_consumption.replica.knows_the_end]
        )
        yield from _moves(shard_consumptions)
        yield from shared_metrics([each for each in shard_consumptions if each.replica.knows_the_end])
        rebalances = CounterMetricFamily(
            "ledgermq_consumer_group_rebalances", "Assignments of queues that this node committed.", labels=["shard"]
        )
        for shard_consumption in shard_consumptions:
            rebalances.add_metric([str(shard_consumption.replica.shard)], shard_consumption.coordinator.rebalances)
        refusals = CounterMetricFamily(
            "ledgermq_consumer_refusals", "Requests of consumer group members refused, by code.", labels=["code"]
        )
        for code, count in sorted(self._service.refusals.items()):
            refusals.add_metric([code], count)
        yield from (rebalances, refusals)

    def _lags(self, shard_consumptions: list[ShardConsumption]) -> Iterator[Metric]:
        """Return lags and members of consumer groups, from the shards that this node leads."""
        labels = ["consumer_group", "topic", "queue"]
        messages = GaugeMetricFamily(
            "ledgermq_consumer_group_lag_messages", "Messages that the group has not consumed.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "ledgermq_consumer_group_lag_seconds", "Age of the oldest message not consumed.", labels=labels
        )
        members = GaugeMetricFamily(
            "ledgermq_consumer_group_members",
            "Members of consumer groups that this node coordinates.",
            labels=["consumer_group"],
        )
        left_out = GaugeMetricFamily(
            "ledgermq_consumer_group_lags_left_out",
            "Queues whose lag is not reported, because there are too many.",
            labels=["shard"],
        )
        now = self._now_ms()
        for shard_consumption in shard_consumptions:
            replica, consumption = shard_consumption.replica, shard_consumption.replica.state.consumption
            for group in consumption.groups:
                members.add_metric([group.name], len(group.members))
            for key, progress in islice(consumption.progress.in_any_order(), MAX_QUEUES):
                topic, lag = replica.state.topics.get(key.topic_id), lag_of(replica, key, progress)
                label = [key.consumer_group, topic.name if topic else str(key.topic_id), str(key.queue)]
                messages.add_metric(label, lag.messages)
                waiting_ms = now - lag.waiting_since_ms if lag.messages else 0
                seconds.add_metric(label, max(0, waiting_ms) / 1000)
            left_out.add_metric([str(replica.shard)], max(0, len(consumption.progress) - MAX_QUEUES))
        yield from (messages, seconds, members, left_out)


def _moves(shard_consumptions: list[ShardConsumption]) -> Iterator[Metric]:
    """Return the counts of retries and dead letters that this node committed while it led a shard."""
    retries = CounterMetricFamily(
        "ledgermq_consumer_group_retries", "Messages moved to a retry topic.", labels=["consumer_group"]
    )
    dead_letters = CounterMetricFamily(
        "ledgermq_consumer_group_dead_letters", "Messages moved to the dead letters.", labels=["consumer_group"]
    )
    for family, counters in (
        (retries, [shard_consumption.claims.retries for shard_consumption in shard_consumptions]),
        (dead_letters, [shard_consumption.claims.dead_letters for shard_consumption in shard_consumptions]),
    ):
        for name, count in sorted(sum(counters, Counter[str]()).items()):
            family.add_metric([name], count)
        yield family

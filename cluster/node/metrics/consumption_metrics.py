"""Reads the metrics of consumer groups at each scrape. A node reports the metrics of the shards that it leads.

Only the leader of a queue's shard reports the queue's lag, because a follower can be behind the leader. The number of
time series, and the time of a scrape, are bounded: a node reports at most 5,000 queues, and a metric says how many
queues were left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import Metric

from cluster.node.metrics.definition import CODES, GROUPS, SHARDS, SeriesBound, counter, gauge
from cluster.node.metrics.shared_metrics import shared_metrics
from ledger.broker.consumer_groups.lag import lag_of
from ledger.broker.consumer_groups.shard_consumption import ShardConsumption
from ledger.broker.label_names import bounded_totals
from ledger.broker.rpc.consumer_groups import ConsumerGroupService

# The largest number of queues that a node reports. One queue takes about 30 µs.
MAX_QUEUES = 5_000

_QUEUES = SeriesBound(MAX_QUEUES, f"{MAX_QUEUES:,} queues of consumer groups, in the shards that the node leads")

LAG_MESSAGES = gauge(
    "ledgermq_consumer_group_lag_messages",
    "Messages that the group has not consumed.",
    ["consumer_group", "topic", "queue"],
    _QUEUES,
)
LAG_SECONDS = gauge(
    "ledgermq_consumer_group_lag_seconds",
    "Age of the oldest message not consumed.",
    ["consumer_group", "topic", "queue"],
    _QUEUES,
)
LEFT_OUT = gauge(
    "ledgermq_consumer_group_lags_left_out",
    "Queues whose lag is not reported, because there are too many.",
    ["shard"],
    SHARDS,
)
MEMBERS = gauge(
    "ledgermq_consumer_group_members",
    "Members of consumer groups that this node coordinates.",
    ["consumer_group"],
    GROUPS,
)
COORDINATED = gauge("ledgermq_coordinated_consumer_groups", "Consumer groups that this node coordinates.")
RETRIES = counter(
    "ledgermq_consumer_group_retries_total", "Messages moved to a retry topic.", ["consumer_group"], GROUPS
)
DEAD_LETTERS = counter(
    "ledgermq_consumer_group_dead_letters_total", "Messages moved to the dead letters.", ["consumer_group"], GROUPS
)
REBALANCES = counter(
    "ledgermq_consumer_group_rebalances_total", "Assignments of queues that this node committed.", ["shard"], SHARDS
)
REFUSALS = counter(
    "ledgermq_consumer_refusals_total", "Requests of consumer group members refused, by code.", ["code"], CODES
)

CONSUMPTION = (LAG_MESSAGES, LAG_SECONDS, LEFT_OUT, MEMBERS, COORDINATED, RETRIES, DEAD_LETTERS, REBALANCES, REFUSALS)


class ConsumptionCollector:
    """A Prometheus collector of the metrics of consumer groups, for `CollectorRegistry.register`."""

    def __init__(self, service: ConsumerGroupService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        shards = list(self._service.shard_consumptions.values())
        led = [each for each in shards if each.replica.knows_the_end]
        yield from self._lags(led)
        yield from _members(led)
        yield from _moves(shards)
        yield from shared_metrics(led)
        rebalances, refusals = REBALANCES.family(), REFUSALS.family()
        for each in shards:
            rebalances.add_metric([str(each.replica.shard)], each.coordinator.rebalances)
        for code, count in sorted(self._service.refusals.items()):
            refusals.add_metric([code], count)
        yield from (rebalances, refusals)

    def _lags(self, led: list[ShardConsumption]) -> Iterator[Metric]:
        """Return the lags of queue groups."""
        messages, seconds, left_out = LAG_MESSAGES.family(), LAG_SECONDS.family(), LEFT_OUT.family()
        left = MAX_QUEUES
        for each in led:
            replica, progress_table = each.replica, each.replica.state.consumption.progress
            now = replica.driver.now_ms()
            for key, progress in islice(progress_table.in_any_order(), left):
                topic, lag = replica.state.topics.get(key.topic_id), lag_of(replica, key, progress)
                labels = [key.consumer_group, topic.name if topic else str(key.topic_id), str(key.queue)]
                messages.add_metric(labels, lag.messages)
                waiting_ms = now - lag.waiting_since_ms if lag.messages else 0
                seconds.add_metric(labels, max(0, waiting_ms) / 1000)
            reported = min(left, len(progress_table))
            left -= reported
            left_out.add_metric([str(replica.shard)], len(progress_table) - reported)
        yield from (messages, seconds, left_out)


def _members(led: list[ShardConsumption]) -> Iterator[Metric]:
    """Return the consumer groups that this node coordinates, and their members."""
    members, coordinated = MEMBERS.family(), COORDINATED.family()
    groups = {group.name: len(group.members) for each in led for group in each.replica.state.consumption.groups}
    for name, count in bounded_totals(groups):
        members.add_metric([name], count)
    coordinated.add_metric([], len(groups))
    yield from (members, coordinated)


def _moves(shards: list[ShardConsumption]) -> Iterator[Metric]:
    """Return the counts of retries and dead letters that this node committed while it led a shard."""
    for definition, counters in (
        (RETRIES, [each.claims.retries for each in shards]),
        (DEAD_LETTERS, [each.claims.dead_letters for each in shards]),
    ):
        family = definition.family()
        for name, count in bounded_totals(sum(counters, Counter[str]())):
            family.add_metric([name], count)
        yield family

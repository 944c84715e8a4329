"""The metrics of shared groups, read at each scrape. Only leaders report them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ledger.broker.consumer_groups.shard_consumption import ShardConsumption
from ledger.broker.shared.shared_lag import SharedLag, shared_lag

# The largest number of windows that a shard reports.
MAX_WINDOWS = 1_000


def shared_metrics(shard_consumptions: list[ShardConsumption]) -> Iterator[Metric]:
    """Return the metrics of the shared groups in the shards that this node leads."""
    labels = ["consumer_group", "topic", "queue"]
    gauges = [
        GaugeMetricFamily(f"ledgermq_shared_{name}", text, labels=labels)
        for name, text in (
            ("lag_messages", "Messages that the shared group has not consumed."),
            ("leased_messages", "Messages that members of the shared group have now."),
            ("waiting_messages", "Messages that were handed out before or passed over, and that nobody has now."),
            ("window_messages", "Offsets from the first message not consumed to the last one handed out."),
        )
    ]
    full = GaugeMetricFamily(
        "ledgermq_shared_full_windows",
        "Queues of which the shared group gets no new messages, because its window is full.",
        labels=["consumer_group"],
    )
    members = GaugeMetricFamily(
        "ledgermq_shared_members", "Consumers of the shared group with a stream to the leader of the shard.",
        labels=["consumer_group", "shard"],
    )  # fmt: skip
    leased = CounterMetricFamily("ledgermq_shared_leased", "Messages leased by this leader.", labels=["shard"])
    finished = CounterMetricFamily(
        "ledgermq_shared_changes", "Messages acknowledged, put off or extended at this leader.", labels=["shard"]
    )
    dead_letters: Counter[str] = Counter()
    for each in shard_consumptions:
        turns, shard = each.turns, str(each.replica.shard)
        leased.add_metric([shard], turns.leased)
        finished.add_metric([shard], turns.acknowledged)
        dead_letters.update(turns.moved)
        for name, queues in turns.full_windows.items():
            full.add_metric([name], queues)
        for name, count in turns.members_by_group().items():
            members.add_metric([name, shard], count)
        for name, lag in islice(_lags(each), MAX_WINDOWS):
            topic = each.replica.state.topics.get(lag.queue.topic_id)
            label = [name, topic.name if topic else str(lag.queue.topic_id), str(lag.queue.queue)]
            for gauge, value in zip(gauges, (lag.lag.messages, lag.leased, lag.waiting, lag.window), strict=True):
                gauge.add_metric(label, value)
    moved = CounterMetricFamily(
        "ledgermq_shared_dead_letters",
        "Messages of shared groups that this leader moved to the dead letters.",
        labels=["consumer_group"],
    )
    for name, count in sorted(dead_letters.items()):
        moved.add_metric([name], count)
    yield from (*gauges, full, members, leased, finished, moved)


def _lags(consumption: ShardConsumption) -> Iterator[tuple[str, SharedLag]]:
    for name, group in consumption.replica.state.shared.leases:
        for queue, window in group.windows.items():
            yield name, shared_lag(consumption.replica, queue, window)

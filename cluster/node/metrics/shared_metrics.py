"""The metrics of shared groups, read at each scrape. Only leaders report them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import Metric

from cluster.node.metrics.definition import GROUPS, SHARDS, SeriesBound, counter, gauge
from ledger.broker.consumer_groups.shard_consumption import ShardConsumption
from ledger.broker.label_names import bounded_totals
from ledger.broker.shared.shared_lag import SharedLag, shared_lag

# The largest number of windows that a node reports.
MAX_WINDOWS = 1_000

_QUEUE = ("consumer_group", "topic", "queue")
_WINDOWS = SeriesBound(MAX_WINDOWS, f"{MAX_WINDOWS:,} queues of shared groups, in the shards that the node leads")

LAG_MESSAGES = gauge(
    "ledgermq_shared_lag_messages", "Messages that the shared group has not consumed.", _QUEUE, _WINDOWS
)
LAG_SECONDS = gauge(
    "ledgermq_shared_lag_seconds", "Age of the oldest message that the shared group has not consumed.", _QUEUE, _WINDOWS
)
LEASED_MESSAGES = gauge(
    "ledgermq_shared_leased_messages", "Messages that members of the shared group have now.", _QUEUE, _WINDOWS
)
WAITING_MESSAGES = gauge(
    "ledgermq_shared_waiting_messages",
    "Messages that were handed out before or passed over, and that nobody has now.",
    _QUEUE,
    _WINDOWS,
)
WINDOW_MESSAGES = gauge(
    "ledgermq_shared_window_messages",
    "Offsets from the first message not consumed to the last one handed out.",
    _QUEUE,
    _WINDOWS,
)
LEFT_OUT = gauge(
    "ledgermq_shared_lags_left_out",
    "Queues of shared groups whose lag is not reported, because there are too many.",
    ["shard"],
    SHARDS,
)
FULL_WINDOWS = gauge(
    "ledgermq_shared_full_windows",
    "Queues of which the shared group gets no new messages, because its window, or its windows together, are full.",
    ["consumer_group"],
    GROUPS,
)
MEMBERS = gauge(
    "ledgermq_shared_members",
    "Consumers of the shared group that have a stream to a leader on this node; of several shards, the most.",
    ["consumer_group"],
    GROUPS,
)
LEASED = counter("ledgermq_shared_leased_total", "Messages leased by this leader.", ["shard"], SHARDS)
CHANGES = counter(
    "ledgermq_shared_changes_total", "Messages acknowledged, put off or extended at this leader.", ["shard"], SHARDS
)
DEAD_LETTERS = counter(
    "ledgermq_shared_dead_letters_total",
    "Messages of shared groups that this leader moved to the dead letters.",
    ["consumer_group"],
    GROUPS,
)

_LAGS = (LAG_MESSAGES, LAG_SECONDS, LEASED_MESSAGES, WAITING_MESSAGES, WINDOW_MESSAGES)
SHARED = (*_LAGS, LEFT_OUT, FULL_WINDOWS, MEMBERS, LEASED, CHANGES, DEAD_LETTERS)


def shared_metrics(led: list[ShardConsumption]) -> Iterator[Metric]:
    """Return the metrics of the shared groups in the shards that this node leads."""
    yield from _lags(led)
    leased, changes = LEASED.family(), CHANGES.family()
    full, members, moved = Counter[str](), Counter[str](), Counter[str]()
    for each in led:
        turns, shard = each.turns, str(each.replica.shard)
        leased.add_metric([shard], turns.leased)
        changes.add_metric([shard], turns.acknowledged)
        full.update(turns.full_windows)
        members |= Counter(turns.members_by_group())  # of each name the larger number
        moved.update(turns.moved)
    yield from (leased, changes)
    for definition, totals in ((FULL_WINDOWS, full), (MEMBERS, members), (DEAD_LETTERS, moved)):
        family = definition.family()
        for name, count in bounded_totals(totals):
            family.add_metric([name], count)
        yield family


def _lags(led: list[ShardConsumption]) -> Iterator[Metric]:
    gauges, left_out, left = [definition.family() for definition in _LAGS], LEFT_OUT.family(), MAX_WINDOWS
    for each in led:
        windows = sum(len(group.windows) for _, group in each.replica.state.shared.leases)
        now_ms = each.replica.driver.now_ms()
        for name, lag in islice(_shard_lags(each), left):
            topic = each.replica.state.topics.get(lag.queue.topic_id)
            labels = [name, topic.name if topic else str(lag.queue.topic_id), str(lag.queue.queue)]
            waiting_ms = now_ms - lag.lag.waiting_since_ms if lag.lag.messages else 0
            values = (lag.lag.messages, max(0, waiting_ms) / 1000, lag.leased, lag.waiting, lag.window)
            for family, value in zip(gauges, values, strict=True):
                family.add_metric(labels, value)
        reported = min(left, windows)
        left -= reported
        left_out.add_metric([str(each.replica.shard)], windows - reported)
    yield from (*gauges, left_out)


def _shard_lags(consumption: ShardConsumption) -> Iterator[tuple[str, SharedLag]]:
    for name, group in consumption.replica.state.shared.leases:
        for queue, window in group.windows.items():
            yield name, shared_lag(consumption.replica, queue, window)

"""Computes summaries of the consumer groups of one shard, for operators. A client adds up the summaries of all
shards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.lag import Lag, lag_of
from ledger.broker.shared.shared_lag import shared_lag
from ledger.broker.turn_budget import TurnBudget
from ledger.retries import DEAD_LETTERS, RETRY, resending_group
from ledger.state import Topic
from ledger.state.progress_table import ConsumedQueue, QueueProgress

# Queues that are looked at in one step of a budget of turns, and windows of shared groups.
QUEUES_AT_ONCE = 100
WINDOWS_AT_ONCE = 16


@dataclass(slots=True)
class ShardGroupSummary:
    """The totals of one consumer group over its queues in one shard. `add` adds the lag of one queue to the totals.

    `members` and `strategy` are filled in only in the shard of the coordinator. `waiting_since_ms` is the append time
    of the oldest message that is not consumed, in ms since 1970, or 0 if all messages are consumed.
    """

    members: int = 0
    strategy: str = ""
    queues: int = 0
    lag_messages: int = 0
    waiting_since_ms: int = 0
    retry_messages: int = 0
    dead_letters: int = 0
    is_shared: bool = False

    def add(self, topic: Topic, lag: Lag) -> None:
        """Add the lag in one queue of a topic to the totals."""
        if topic.name.startswith(RETRY):
            self.retry_messages += lag.messages
            return
        self.queues += 1
        self.lag_messages += lag.messages
        if lag.messages:
            self.waiting_since_ms = min(self.waiting_since_ms or lag.waiting_since_ms, lag.waiting_since_ms)


async def summaries(replica: BrokerReplica, turns: TurnBudget) -> dict[str, ShardGroupSummary]:
    """Return a dictionary from group names to summaries. The dictionary contains every consumer group that has
    members, progress, leases or dead letters in this shard, or was created in it. All callers together have the budget
    `turns`: every user may ask."""
    await turns.spend(1)
    found: defaultdict[str, ShardGroupSummary] = defaultdict(ShardGroupSummary)
    for group in replica.state.consumption.groups:
        if group.members:
            found[group.name].members, found[group.name].strategy = len(group.members), group.strategy
    for number, (key, progress) in enumerate(replica.state.consumption.progress.in_any_order(), 1):
        if number % QUEUES_AT_ONCE == 0:
            await turns.spend(1)
        topic = replica.state.topics.get(key.topic_id)
        if topic is None or topic.name.startswith(DEAD_LETTERS):
            continue
        found[key.consumer_group].add(topic, lag_of(replica, key, progress))
    for name, leased in replica.state.shared.leases:
        found[name].is_shared = True
        for number, (queue, window) in enumerate(list(leased.windows.items())):
            if number % WINDOWS_AT_ONCE == 0:
                await turns.spend(1)
            if (topic := replica.state.topics.get(queue.topic_id)) is not None:
                found[name].add(topic, shared_lag(replica, queue, window).lag)
    for mode in replica.state.shared.modes:
        found[mode.consumer_group].is_shared = mode.is_shared
    for topic in replica.state.topics:
        if topic.name.startswith(DEAD_LETTERS):
            name = topic.name.removeprefix(DEAD_LETTERS)
            found[name].dead_letters = _not_sent_again(replica, topic, resending_group(name))
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class ConsumedQueueLag:
    """Progress and lag of a consumer group in one queue. `settled` is the number of settled messages after the
    offset."""

    topic_id: int
    queue: int
    offset: int
    settled: int
    epoch: int
    lag: Lag


async def lags(replica: BrokerReplica, consumer_group: str, turns: TurnBudget) -> list[ConsumedQueueLag]:
    """Return progress and lag of a consumer group in each queue of this shard, sorted by topic and queue, with a part
    of the budget `turns`."""
    found = []
    for number, (key, progress) in enumerate(replica.state.consumption.progress.of(consumer_group)):
        if number % QUEUES_AT_ONCE == 0:
            await turns.spend(1)
        lag = lag_of(replica, key, progress)
        settled = len(progress.settled)
        found.append(ConsumedQueueLag(key.topic_id, key.queue, progress.offset, settled, progress.epoch, lag))
    return found


def _not_sent_again(replica: BrokerReplica, topic: Topic, resending: str) -> int:
    """Return the number of dead letters in the topic that were not sent again. The progress of the consumer group
    `resending` says which dead letters were sent again."""
    count = 0
    for queue in [queue for queue, shard in enumerate(topic.shards) if shard == replica.shard]:
        key = ConsumedQueue(resending, topic.topic_id, queue)
        progress = replica.state.consumption.progress.get(key) or QueueProgress(epoch=0, offset=0)
        count += lag_of(replica, key, progress).messages
    return count

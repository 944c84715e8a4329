"""The replicated state, and what the leader knows ahead of it.

sequence.py     one producer in one queue: accept, duplicate, gap, fenced, forgotten
producers.py    all of them, and when they are forgotten
topic_table.py  the topics
shard_table.py  the shards of the cluster
hold_table.py   who holds the log
progress_table.py        how far consumer groups have come with queues
consumer_group_table.py  who is in a consumer group, and who consumes what
consumption.py  both, as commands change them; consumption_encoding.py: as bytes
encoding.py     all of it as bytes
machine.py      State: all that committed entries say
projected.py    Projected: the leader's view of what is not committed yet
"""

from __future__ import annotations

from ledger.state.consumer_group_table import ConsumerGroup, TopicQueueId
from ledger.state.consumption import QueueResults, Standing
from ledger.state.hold_table import Hold
from ledger.state.machine import CommandResult, DeletedTopic, State
from ledger.state.producers import ProducerLimits, ProducerQueue
from ledger.state.projected import Projected
from ledger.state.sequence import Accept, BatchRecord, Decision, Duplicate, Fenced, Forgotten, Gap
from ledger.state.topic_table import Topic

__all__ = [
    "Accept",
    "BatchRecord",
    "CommandResult",
    "ConsumerGroup",
    "Decision",
    "DeletedTopic",
    "Duplicate",
    "Fenced",
    "Forgotten",
    "Gap",
    "Hold",
    "ProducerLimits",
    "ProducerQueue",
    "Projected",
    "QueueResults",
    "Standing",
    "State",
    "Topic",
    "TopicQueueId",
]

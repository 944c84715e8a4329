"""The replicated state, and the leader's projected state.

In reading order:

machine.py               State: the result of all committed entries
topic_table.py           the topics
shard_table.py           the shards of the cluster
sequence.py              one producer in one queue: accept, duplicate, gap, fenced, forgotten
producers.py             all producers, and when they expire
hold_table.py            the holds of the log
progress_table.py        the progress of consumer groups in queues
consumer_group_table.py  the members and assignments of consumer groups
consumption.py           both tables of consumer groups, as commands change them
encoding.py              the state as bytes
consumption_encoding.py  the state of consumer groups as bytes
projected.py             Projected: the state with the leader's uncommitted entries
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

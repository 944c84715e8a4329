"""The replicated state of a shard, and the leader's projected state.

This list has the modules in reading order.

    machine.py                 State: the result of all committed entries
    commands.py                the entries that change the state and are not batches
    command_checks.py          the values that a command may have
    feature_levels.py          which rules count from which entry on
    command_encoding.py        commands as the bodies of entries
    topic_table.py             the topics
    shard_table.py             the shards of the cluster
    placement_table.py         replication factors, drains and moves of replicas
    sequence.py                one producer's batches in one queue, and the decision about the next batch
    keys_by_topic.py           the keys of a table by topic, for deletions of topics
    producers.py               all producers, and when they expire
    hold_table.py              the holds of this shard's log
    pinned_leader.py           the pinned leader of this shard
    progress_table.py          the progress of consumer groups in queues
    subscribed_queues.py       how many queues the topics of a consumer group have
    consumer_group_table.py    the members and assignments of consumer groups
    coordinator_table.py       which shard coordinates which consumer group
    consumption.py             applies the commands of consumer groups to both tables
    access_table.py            users, their rules, and delegated tokens
    timed_table.py             which waiting messages were delivered
    message_ids.py             the message ids of the last minutes
    transaction_table.py       the half batches of transactions, and how transactions ended
    group_modes.py             the modes of consumer groups
    lease_window.py            the leased messages of one shared group in one queue
    lease_table.py             the leases of all shared groups
    shared_groups.py           applies the commands of shared groups to both tables
    encoding.py                the state as bytes
    access_encoding.py         the users as bytes
    consumption_encoding.py    the state of consumer groups as bytes
    transaction_encoding.py    the transactions as bytes
    lease_encoding.py          modes and leases as bytes
    projected.py               Projected: the state with the leader's uncommitted entries
    projected_timed.py         the waiting messages that uncommitted entries deliver or cancel
    projected_message_ids.py   the message ids of uncommitted batches
    projected_transactions.py  the half batches that uncommitted entries add or settle
"""

from __future__ import annotations

from ledger.state.consumer_group_table import ConsumerGroup, TopicQueueId
from ledger.state.consumption import ProgressResult, QueueResults
from ledger.state.hold_table import Hold
from ledger.state.machine import CommandResult, CommittedBatch, DeletedTopic, PreparedHalf, Settlement, State
from ledger.state.producers import ProducerLimits, ProducerQueue
from ledger.state.projected import Projected
from ledger.state.sequence import Accept, BatchRecord, Decision, Duplicate, Fenced, Forgotten, SequenceGap
from ledger.state.timed_table import TimedCursor, TimedMessage, UndeliveredMessages
from ledger.state.topic_table import Topic
from ledger.state.transaction_table import HalfBatch, HalfName

__all__ = [
    "Accept",
    "BatchRecord",
    "CommandResult",
    "CommittedBatch",
    "ConsumerGroup",
    "Decision",
    "DeletedTopic",
    "Duplicate",
    "Fenced",
    "Forgotten",
    "HalfBatch",
    "HalfName",
    "Hold",
    "PreparedHalf",
    "ProducerLimits",
    "ProducerQueue",
    "ProgressResult",
    "Projected",
    "QueueResults",
    "SequenceGap",
    "Settlement",
    "State",
    "TimedCursor",
    "TimedMessage",
    "Topic",
    "TopicQueueId",
    "UndeliveredMessages",
]

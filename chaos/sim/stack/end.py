"""Checks the replicas at the end of a run in the stack world. Every replica of a shard must have all entries, with
equal bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from chaos.sim.engine.targets import leader_of
from chaos.sim.invariants import Invariants
from chaos.sim.stack.node_part import NodePart
from ledger.batch import indexed_hashes
from ledger.broker.broker_replica import BrokerReplica
from store import EntryKind


def unsettled(shard: int, members: Sequence[NodePart]) -> list[str]:
    """Return a phrase for each condition that this shard must still meet before the run can end. `members` has the
    `NodePart` of each member of the shard."""
    leader = leader_of(members)
    if leader is None or leader.replica is None:
        return [f"shard {shard} has no leader"]
    last = leader.replica.log.last_index
    missing = []
    for part in members:
        replica, name = part.replica, f"shard {shard}: node {part.node}"
        if replica is None:
            missing.append(f"{name} {part.why_apart}")
        elif part.is_damaged:
            missing.append(f"{name} is damaged")
        elif (replica.driver.applied, replica.log.last_index) != (last, last):
            missing.append(f"{name} has applied {replica.driver.applied} of {last} entries")
        elif replica.driver.raft.durable != last:
            missing.append(f"{name} holds {replica.driver.raft.durable} of {last} entries")
    return missing


def unopened(topics: BrokerReplica | None) -> list[str]:
    """Return a phrase for each topic with queues that are not open in their shards yet. `topics` is the replica of
    shard 0 on its leader, or None."""
    opening = topics.state.topics.opening() if topics is not None else ()
    return [f"topic {topic.name} has {topic.opened} of {topic.queues} queues open" for topic in opening]


def compare(members: Sequence[NodePart], invariants: Invariants) -> None:
    """Compare the logs, states and ConsumeQueues of all replicas of a shard, and compare the key index of each replica
    with its log.

    The replicas can have different log starts, because a replica without a snapshot at the log start keeps more
    entries. Two replicas are compared from the later of their two log starts.
    """
    replicas = [(node.node, node.replica) for node in members if node.replica is not None]
    first, reference = min(replicas, key=lambda each: each[1].log.first_index)
    for node, replica in replicas:
        start = replica.log.first_index
        invariants.same_state(node, replica.driver.applied, replica.state.digest())
        if _log_bytes(replica, start) != _log_bytes(reference, start):
            invariants.fail("logs are byte-identical", f"nodes {first} and {node} have different bytes")
        if (wrong := _wrong_keys(replica)) is not None:
            invariants.fail("the key index finds what the log has", f"the key index of node {node} is wrong: {wrong}")
        for topic_id, queue in _queues(replica):
            if _units(replica, topic_id, queue) != _units(reference, topic_id, queue, since=replica):
                invariants.fail("ConsumeQueues are equal", f"nodes {first} and {node} have different units")


def _log_bytes(replica: BrokerReplica, start: int) -> bytes:
    log = replica.log
    return b"".join(log.reading.read_range(index, index) for index in range(start, log.last_index + 1))


def _queues(replica: BrokerReplica) -> list[tuple[int, int]]:
    """Return the topic id and number of each queue in the replica's shard."""
    return [
        (topic.topic_id, queue)
        for topic in replica.state.topics
        for queue in range(topic.queues)
        if topic.shards[queue] == replica.shard
    ]


def _units(replica: BrokerReplica, topic_id: int, queue: int, since: BrokerReplica | None = None) -> bytes:
    """Return the bytes of a queue's ConsumeQueue, from the first offset that the replica `since` has for the queue."""
    first = (since or replica).queues.get(topic_id, queue).first_offset
    units = replica.queues.get(topic_id, queue)
    return units.read(first, units.end_offset - first).tobytes()


def _wrong_keys(replica: BrokerReplica) -> str | None:
    """Return a phrase about one key for which the key index and the log differ, or None if they agree about all
    keys."""
    log, in_log = replica.log, defaultdict[tuple[int, int], list[int]](list)
    for index in range(log.last_index, log.first_index - 1, -1):
        header, body = log.entry(index)
        if header.kind is EntryKind.BATCH and (hashes := indexed_hashes(body)) is not None:
            for key_hash in np.unique(hashes[hashes != 0]).tolist():
                in_log[header.topic_id, key_hash].append(header.position)
    for (topic_id, key_hash), positions in in_log.items():
        search = replica.keys.search(topic_id, key_hash)
        found = [hit.position for hit in search.take(replica.log.last_index * 100)]
        if not search.done or found != positions:
            return f"hash {key_hash:#x} of topic {topic_id} is at {positions} in the log but at {found} in the index"
    return None

"""The end of a full-stack run: everybody has everything, and it is the same everywhere, byte by byte.

It must not know how the run went.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chaos.sim.invariants import Invariants
from chaos.sim.node import StackNode
from chaos.sim.targets import leader_of
from ledger.broker.replica import Replica


def unsettled(nodes: Sequence[StackNode], strangers: Collection[int]) -> list[str]:
    """What is still missing on the nodes. `strangers` lost their disks, and take no part any more."""
    members = [node for node in nodes if node.node not in strangers]
    leader = leader_of(members)
    if leader is None or leader.replica is None:
        return ["nobody leads"]
    last = leader.replica.log.last_index
    missing = []
    for node in members:
        replica = node.replica
        if replica is None:
            missing.append(f"node {node.node} is down: {node.ended or 'nobody started it'}")
        elif (replica.driver.applied, replica.log.last_index) != (last, last):
            missing.append(f"node {node.node} has applied {replica.driver.applied} of {last}")
        elif replica.driver.raft.durable != last:
            missing.append(f"node {node.node} holds {replica.driver.raft.durable} of {last}")
    return missing


def compare(nodes: Sequence[StackNode], invariants: Invariants) -> None:
    """Logs, states and ConsumeQueues of all replicas that take part."""
    replicas = [(node.node, node.replica) for node in nodes if node.replica is not None and node.replica.log.end]
    first, reference = replicas[0]
    log, queues = _log_bytes(reference), _units(reference)
    for node, replica in replicas:
        invariants.same_state(node, replica.driver.applied, replica.state.digest())
        if _log_bytes(replica) != log:
            invariants.fail("logs are byte-identical", f"nodes {first} and {node} have different bytes")
        if _units(replica) != queues:
            invariants.fail("ConsumeQueues are equal", f"nodes {first} and {node} have different units")


def _log_bytes(replica: Replica) -> bytes:
    log = replica.log
    return b"".join(log.read_range(index, index) for index in range(1, log.last_index + 1))


def _units(replica: Replica) -> dict[tuple[int, int], bytes]:
    return {
        (topic.topic_id, queue): _units_of(replica, topic.topic_id, queue)
        for topic in replica.state.topics
        for queue in range(topic.queues)
    }


def _units_of(replica: Replica, topic_id: int, queue: int) -> bytes:
    units = replica.queues.get(topic_id, queue)
    return units.read(0, units.end_offset).tobytes()

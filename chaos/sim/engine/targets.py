"""Chooses the node that a fault hits. The node is chosen when the fault happens, and must fit the target that the
fault event names.

All random choices about a fault event depend only on the number `chance` in the event. A fault event hits the same
node in two runs if both runs were equal before the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.world import SimNode
from raft.core import Role

Node = TypeVar("Node", bound=SimNode)


def leader_of(nodes: Sequence[Node]) -> Node | None:
    """Return the node that leads in the newest term, or None if no node is a leader."""
    leading = [(node.raft.term, node) for node in nodes if node.raft is not None and node.raft.role is Role.LEADER]
    return max(leading, key=lambda each: each[0])[1] if leading else None


def target_of(event: FaultEvent, nodes: Sequence[Node]) -> Node:
    """Return the node that the event hits: the node with the event's number, the leader, a follower, or any node.
    If no node is a leader, an event for the leader or a follower hits a random node."""
    chance, leader = chance_of(event), leader_of(nodes)
    if event.target.isdigit():
        return next(node for node in nodes if node.node == int(event.target))
    if event.target == "leader" and leader is not None:
        return leader
    if event.target == "follower" and leader is not None and len(nodes) > 1:
        return chance.choice([node for node in nodes if node is not leader])
    return chance.choice(nodes)


def one_of(event: FaultEvent, shards: Sequence[int]) -> int:
    """Choose the shard that the event concerns. The choice of the shard has a separate random stream, so other
    random choices do not depend on the number of shards."""
    return Random(f"{event.kind}/{event.number('chance')}/group").choice(shards)


def chance_of(event: FaultEvent) -> Random:
    """Return the random stream for the choices about an event, except the choice of its shard."""
    return Random(f"{event.kind}/{event.number('chance')}")

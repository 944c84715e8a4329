"""Whom a fault hits: words of the schedule become a node at the moment the fault happens.

All that is left to chance about it is a number in the schedule, so the same schedule hits the same nodes as long as
the history before is the same. Must not know: worlds.
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
    """Of those that think they lead, the one of the newest term."""
    leading = [(node.raft.term, node) for node in nodes if node.raft is not None and node.raft.role is Role.LEADER]
    return max(leading, key=lambda each: each[0])[1] if leading else None


def target_of(event: FaultEvent, nodes: Sequence[Node]) -> Node:
    """The node that the event means: a leader where it asks for one and there is one, a number, or anyone."""
    chance, leader = chance_of(event), leader_of(nodes)
    if event.target.isdigit():
        return next(node for node in nodes if node.node == int(event.target))
    if event.target == "leader" and leader is not None:
        return leader
    if event.target == "follower" and leader is not None and len(nodes) > 1:
        return chance.choice([node for node in nodes if node is not leader])
    return chance.choice(nodes)


def one_of(event: FaultEvent, shards: Sequence[int]) -> int:
    """The shard that the event is about: by a chance of its own, so that the others stay with one shard."""
    return Random(f"{event.kind}/{event.number('chance')}/group").choice(shards)


def chance_of(event: FaultEvent) -> Random:
    """What else is left to chance about an event."""
    return Random(f"{event.kind}/{event.number('chance')}")

"""Topics, queues and consumer groups of the scale world, and how many requests their consumers make of each node.

The product's functions place the queues on shards, the coordinators of groups on shards, and the queues of each group
on its consumers. A consumer sends a heartbeat to its coordinator each HEARTBEAT_S, and asks each of its queues' shards
for messages each FETCH_S while there are none. The requests go to the present leaders of the shards.
"""

from __future__ import annotations

import inspect
from collections import Counter

from chaos.sim.scale.nodes import ScaleNodes
from chaos.sim.scale.options import ScaleOptions
from ledger.broker.consumer_groups.assignment import assign
from ledger.broker.topics.placement import place_queues
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.state import ConsumerGroup
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.coordinator_table import least_loaded

QUEUES_OF_TOPIC = 8
CONSUMERS_OF_GROUP = 10


def _default(option: str) -> int:
    value = inspect.signature(AsyncGroupConsumer).parameters[option].default
    assert isinstance(value, int)
    return value


SESSION_TIMEOUT_MS = _default("session_timeout_ms")
# `group_membership.wait_ms`: the coordinator answers a heartbeat after this time if nothing changed.
HEARTBEAT_S = min(3_000, SESSION_TIMEOUT_MS // 3) / 1000
FETCH_S = _default("max_wait_ms") / 1000


class ScaleConsumers:
    """The consumers of all groups."""

    def __init__(self, options: ScaleOptions) -> None:
        shards = range(1, options.shards + 1)
        placed = place_queues(options.topics * QUEUES_OF_TOPIC, shards, ())
        self.queues_of_shard = Counter(placed)
        # By shard: consumers whose group the shard coordinates, and consumers that fetch from it.
        self.members: Counter[int] = Counter()
        self.fetchers: Counter[int] = Counter()
        # Consumers that had to find their coordinator again because its shard has another leader.
        self.lost_coordinator = 0
        self.groups = -(-options.consumers // CONSUMERS_OF_GROUP)
        loads: Counter[int] = Counter()
        numbers = [0, *shards]
        for number in range(self.groups):
            size = min(CONSUMERS_OF_GROUP, options.consumers - number * CONSUMERS_OF_GROUP)
            shard = least_loaded(numbers, loads, numbers)
            loads[shard] += 1
            self.members[shard] += size
            topic = number % options.topics
            fetched = {
                (placed[topic * QUEUES_OF_TOPIC + queue.queue], member)
                for queue, member in assign(_group(number, topic, size)).items()
            }
            self.fetchers.update(shard for shard, _ in fetched)

    def elected(self, shard: int) -> None:
        """Note that the shard has another leader."""
        self.lost_coordinator += self.members[shard]

    def pass_time(self, nodes: ScaleNodes, seconds: float) -> None:
        """Count the requests of so many seconds."""
        for number, shard in nodes.shards.items():
            if (leader := shard.leader) is not None:
                heartbeats, fetches = self.members[number] / HEARTBEAT_S, self.fetchers[number] / FETCH_S
                nodes.traffic.heartbeats[leader.node] += heartbeats * seconds
                nodes.traffic.fetches[leader.node] += fetches * seconds


def _group(number: int, topic: int, size: int) -> ConsumerGroup:
    group = ConsumerGroup(f"group-{number}", "average")
    for member in range(size):
        details = MemberDetails(f"member-{member}", "client", "", SESSION_TIMEOUT_MS, ((topic, QUEUES_OF_TOPIC),))
        group.join("average", details, member + 1)
    return group

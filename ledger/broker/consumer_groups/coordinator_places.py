"""Decides on the leader of shard 0 which shard coordinates a consumer group.

    a member asks for the coordinator of a new group ──> PlaceCoordinator, to the shard with the fewest groups
    an operator moves a coordinator                  ──> PlaceCoordinator, to the shard that the operator names

The decision is one entry of shard 0. Every node has a replica of shard 0, so the leader of the named shard learns of
the decision by itself and notes it in its own log before it takes members (`Coordinator.host`). The leader of the
earlier shard removes the group's members there (`Coordinator.close_moved`), who then ask again and join the new
coordinator.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.consumer_groups import validate_group_name
from ledger.errors import GroupFullError
from ledger.state.commands import PlaceCoordinator
from ledger.state.coordinator_table import least_loaded
from ledger.state.feature_levels import PLACED_COORDINATORS
from ledger.topics import TOPICS_SHARD


class CoordinatorPlaces:
    """Finds and moves the coordinators of consumer groups, on the leader of shard 0."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        # By shard: how many new groups are being placed there.
        self._under_way: Counter[int] = Counter()

    async def find(self, consumer_group: str) -> int:
        """Return the shard that coordinates a group. A group that is new is placed first. Raises LedgerError."""
        validate_group_name(consumer_group)
        replica = self._replicas.topics
        replica.check_leads(0)
        known = replica.state.coordinators.get(consumer_group)
        if known is not None:
            return known.shard
        if not _may_be_placed(replica, consumer_group):
            return TOPICS_SHARD
        shard = self._chosen(replica)
        self._under_way[shard] += 1
        try:
            place = await asyncio.shield(replica.command(PlaceCoordinator(consumer_group, shard, only_new=True)))
        except GroupFullError:
            return TOPICS_SHARD
        finally:
            self._under_way[shard] -= 1
        return TOPICS_SHARD if place is None else int(place.shard)

    async def move(self, consumer_group: str, shard: int) -> None:
        """Let a shard coordinate a group from now on. Return when this is committed. The members join there by
        themselves. The call is idempotent. Raises InvalidArgumentError if there is no such shard or a node is too old,
        GroupConflictError if the group is shared, or another LedgerError."""
        validate_group_name(consumer_group)
        replica = self._replicas.topics
        replica.check_leads(0)
        await replica.feature_level.reach(PLACED_COORDINATORS)
        replica.state.require_coordinators()
        await asyncio.shield(replica.command(PlaceCoordinator(consumer_group, shard)))

    def _chosen(self, replica: BrokerReplica) -> int:
        """Return the shard for a new group: the one with the fewest groups, of those that can serve it now."""
        state, numbers = replica.state, replica.state.shards.numbers
        loads = Counter(state.coordinators.counts()) + self._under_way
        loads[TOPICS_SHARD] += sum(state.coordinators.get(group.name) is None for group in state.consumption.groups)
        return least_loaded(numbers, loads, filter(self._can_coordinate, numbers))

    def _can_coordinate(self, shard: int) -> bool:
        """Return False if this node knows that the shard has no leader, or a feature level that is too low."""
        there = self._replicas.get(shard)
        return there is None or (there.driver.raft.leader != 0 and there.state.feature_level >= PLACED_COORDINATORS)


def _may_be_placed(replica: BrokerReplica, consumer_group: str) -> bool:
    """Return True if the group is new and there is a choice of shards. Groups that have members in shard 0, and shared
    groups, stay there."""
    state = replica.state
    mode = state.shared.modes.get(consumer_group)
    return (
        state.feature_level >= PLACED_COORDINATORS
        and len(state.shards.numbers) > 1
        and not state.coordinators.is_full
        and state.consumption.groups.get(consumer_group) is None
        and (mode is None or not mode.is_shared)
    )

"""Finds the objects of a local shard that serve consumer groups, and the coordinator of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.acknowledgements import Acknowledgements
from ledger.broker.consumer_groups.claims import QueueClaims
from ledger.broker.consumer_groups.coordinator import Coordinator
from ledger.broker.consumer_groups.coordinator_places import CoordinatorPlaces
from ledger.broker.replicas import Replicas
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.consumer_groups import validate_group_name
from ledger.errors import UnavailableError
from ledger.topics import TOPICS_SHARD

# What clients that do not ask where a group is coordinated are told: in shard 0.
COORDINATORS = 1


@dataclass(frozen=True, slots=True)
class ShardConsumption:
    """The objects of one shard that serve the consumers of its queues."""

    replica: BrokerReplica
    coordinator: Coordinator
    acknowledgements: Acknowledgements
    claims: QueueClaims
    # Leases messages to the members of shared groups.
    turns: LeaseTurns


class ConsumedShard(Protocol):
    """The interface through which consumer groups use a shard of this node."""

    @property
    def shard_consumption(self) -> ShardConsumption | None:
        """The objects of the shard that serve consumers, or None until the shard has started on this node."""


class ShardConsumptions:
    """Finds the objects of this node's shards that serve consumer groups."""

    def __init__(self, shards: Mapping[int, ConsumedShard], replicas: Replicas) -> None:
        """`shards` maps shard numbers to the shards of this node. Shards can be added to this mapping later."""
        self._shards = shards
        self._replicas = replicas
        self.places = CoordinatorPlaces(replicas)
        self.lookup = GroupLookup(replicas)

    def started(self) -> dict[int, ShardConsumption]:
        """Return the shards that have started on this node, by shard number."""
        return {
            number: shard.shard_consumption
            for number, shard in sorted(self._shards.items())
            if shard.shard_consumption is not None
        }

    def require(self, shard: int) -> ShardConsumption:
        """Return the objects of a shard that serve consumers. Raises LedgerError if the shard has not started on
        this node."""
        self._replicas.require(shard)
        shard_consumption = self._shards[shard].shard_consumption
        if shard_consumption is None:
            raise UnavailableError(f"shard {shard} has not started on this node yet: try again shortly")
        return shard_consumption

    async def leading(self, shard: int) -> ShardConsumption:
        """Make a read index of the shard, and return the shard's objects that serve consumers. Raises LedgerError
        if this node does not lead the shard."""
        shard_consumption = self.require(shard)
        await shard_consumption.replica.confirm_still_leading()
        return shard_consumption

    def coordinator(self, shard: int, consumer_group: str) -> Coordinator:
        """Return what coordinates consumer groups in `shard`. It refuses requests of a group that another shard
        coordinates. Raises LedgerError if the name of the group is invalid, or if `shard` has not started on this
        node."""
        validate_group_name(consumer_group)
        return self.require(shard).coordinator

    async def move_coordinator(self, consumer_group: str, shard: int) -> None:
        """Let a shard coordinate a group from now on, on the leader of shard 0. Raises LedgerError."""
        await self.places.move(consumer_group, shard)
        self.require(TOPICS_SHARD).coordinator.changed(consumer_group)

"""Places of replicas that move between nodes."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

KEEPER = "ledger.broker.placement.keeper:PlacementKeeper"
DISCARDED = "cluster.node.replica.discarding:DiscardedReplicas"

# fmt: off
PLACES = (
    Place("placement: a node becomes a learner of a shard", f"{KEEPER}._is_over", "await self._calls.add_replica(", stack=50),
    Place("placement: the learner becomes a voter", f"{KEEPER}._is_over", "await self._calls.promote_replica(", stack=50),
    Place("placement: the old replica hands over leadership", f"{KEEPER}._is_over", "await self._calls.transfer_leadership(", stack=100),
    Place("placement: the old replica goes", f"{KEEPER}._is_over", "await self._calls.remove_replica(move.shard, move.source)", stack=50),
    Place("placement: a move is given up", f"{KEEPER}._is_over", "await self._calls.remove_replica(move.shard, move.to)", stack=RARE),
    Place("placement: a step fails and is repeated", f"{KEEPER}._advance", "self.troubles[move.shard] = error.message",
          stack=100),
    Place("placement: the replicas are balanced", f"{KEEPER}._begin_moves", "await self._propose(replica, BalanceReplicas(False))", stack=100),
    Place("placement: a removed replica is deleted", f"{DISCARDED}._discard", "self._deleted(number)", stack=50),
)
# fmt: on

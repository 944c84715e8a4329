"""Places of replicas that move between nodes."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

KEEPER = "ledger.broker.placement.keeper:PlacementKeeper"
STEP = f"{KEEPER}._take_step"
CALLS = "await self._calls"
DISCARDED = "cluster.node.replica.discarding:DiscardedReplicas"

# fmt: off
PLACES = (
    Place("placement: a node becomes a learner of a shard", STEP, f"{CALLS}.add_replica(", stack=100),
    Place("placement: the learner becomes a voter", STEP, f"{CALLS}.promote_replica(", stack=200),
    Place("placement: the old replica hands over leadership", STEP, f"{CALLS}.transfer_leadership(", stack=500),
    Place("placement: the old replica goes", STEP, f"{CALLS}.remove_replica(move.shard, move.source)", stack=200),
    Place("placement: a move is given up", STEP, f"{CALLS}.remove_replica(move.shard, move.to)", stack=RARE),
    Place("placement: a step fails and is repeated", f"{KEEPER}._advance",
          "self.troubles[move.shard] = error.message", stack=200),
    Place("placement: the replicas are balanced", f"{KEEPER}._begin_moves",
          "await self._propose(replica, BalanceReplicas(False))", stack=200),
    Place("placement: a shard prefers another leader", f"{KEEPER}._balance_leaders", f"{CALLS}.prefer_leader(",
          stack=RARE),
    Place("placement: a removed replica is deleted", f"{DISCARDED}._discard", "self._deleted(number)", stack=100),
)
# fmt: on

"""Turns what the leader of shard 0 knows about the placement of replicas into protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ledger.broker.placement.leaders import leader_changes
from ledger.broker.placement.plan import plan
from ledger.broker.placement.view import PlacedShard, PlacementView
from ledger.state.placement_table import PlacementTable, ReplicaMove
from ledger.v1 import operations_pb2


def put_placement(
    response: operations_pb2.GetPlacementResponse,
    table: PlacementTable,
    view: PlacementView,
    troubles: Mapping[int, str],
) -> None:
    """Fill the response. `troubles` has the last error of the move of each shard."""
    response.replicas, response.replicas_set = table.replicas, table.set_replicas_to > 0
    response.paused, response.balancing = table.is_paused, table.is_balancing
    for node in view.nodes.values():
        drain = view.drains.get(node.node)
        response.nodes.add(
            node=node.node,
            room=node.room,
            silent_ms=int(node.silent_ms),
            gone=node.is_gone,
            draining=drain is not None,
            leaving=drain is not None and drain.removes,
        )
    response.shards.extend(_shard(shard, view) for _, shard in sorted(view.shards.items()))
    response.moves.extend(_move(move, view, troubles.get(move.shard, "")) for move in table.moves)
    response.balance.extend(_move(move, view) for move in plan(replace(view, is_balancing=True)).moves)
    response.leader_changes = len(leader_changes(view))
    response.obstacles.extend(plan(view).obstacles)


def _shard(shard: PlacedShard, view: PlacementView) -> operations_pb2.PlacedShard:
    return operations_pb2.PlacedShard(
        shard=shard.shard,
        leader=shard.leader,
        log_bytes=shard.size,
        wanted=view.wanted_in(shard.shard),
        replicas=[
            operations_pb2.PlacedReplica(
                node=each.node,
                voter=each.is_voter,
                answers=each.answers and each.is_intact,
                lag_bytes=each.lag_bytes,
            )
            for each in shard.replicas.values()
        ],
    )


def _move(move: ReplicaMove, view: PlacementView, trouble: str = "") -> operations_pb2.ReplicaMove:
    shard = view.shards.get(move.shard)
    new = shard.replicas.get(move.to) if shard is not None else None
    lag = new.lag_bytes if new is not None else shard.size if shard is not None and move.to else 0
    return operations_pb2.ReplicaMove(
        shard=move.shard,
        to=move.to,
        source=move.source,
        reason=move.reason,
        begun_ms=move.begun_ms,
        lag_bytes=lag,
        trouble=trouble,
    )

"""The admin client's operations on the placement of replicas, which the leader of shard 0 keeps.

Every change is one request, which may be repeated. The cluster carries it out by itself, and `until` looks at how far
it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.client.admin.members_admin import Deadline
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.placement_records import (
    MOVE_REASONS,
    Placement,
    PlacementMove,
    PlacementNode,
    PlacementReplica,
    PlacementShard,
)
from ledger.errors import InvalidArgumentError, OperationTimeoutError
from ledger.topics import TOPICS_SHARD, validate_replicas
from ledger.v1 import operations_pb2

_LOOK_AGAIN_S = 0.3
_FEATURE = "placement of replicas"

# Called with the placement at each look while the caller waits.
OnPlacement = Callable[[Placement], None]


class PlacementAdmin:
    """Reads and changes the placement of replicas, over the connections of one admin client."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def placement(self) -> Placement:
        request = operations_pb2.GetPlacementRequest()
        said = await self._client.call_feature(
            _FEATURE, TOPICS_SHARD, lambda stub, s: stub.GetPlacement(request, timeout=s)
        )
        return _placement(said)

    async def set_replicas(self, replicas: int | None, shard: int | None) -> None:
        if shard is not None and shard < 1:
            raise InvalidArgumentError(f"Shard {shard} cannot have a number of replicas of its own: use 1 or more.")
        if replicas is not None:
            validate_replicas(replicas)
        elif shard is None:
            raise InvalidArgumentError("Give a number of replicas, or the shard whose own number is to be taken away.")
        await self._change(operations_pb2.SetPlacementRequest(replicas=replicas or 0, shard=shard or 0))

    async def pause(self, *, resume: bool) -> None:
        await self._change(operations_pb2.SetPlacementRequest(paused=not resume))

    async def balance(self, *, stop: bool) -> None:
        await self._change(operations_pb2.SetPlacementRequest(balancing=not stop))

    async def _change(self, request: operations_pb2.SetPlacementRequest) -> None:
        await self._client.call_feature(_FEATURE, TOPICS_SHARD, lambda stub, s: stub.SetPlacement(request, timeout=s))

    async def drain(self, node: int, *, removes: bool = False, stop: bool = False) -> None:
        request = operations_pb2.DrainNodeRequest(node=node, removes=removes, stop=stop)
        await self._client.call_feature(_FEATURE, TOPICS_SHARD, lambda stub, s: stub.DrainNode(request, timeout=s))

    async def until(
        self,
        is_done: Callable[[Placement], bool],
        what: str,
        deadline: Deadline,
        on_progress: OnPlacement | None,
    ) -> None:
        """Look until `is_done` is True. Raise OperationTimeoutError at the deadline; `what` says what then goes on."""
        while True:
            placement = await self.placement()
            if is_done(placement):
                return
            if on_progress is not None:
                on_progress(placement)
            if deadline.left_ms <= 0:
                raise OperationTimeoutError(
                    f"{what} after {deadline.timeout_ms / 1000:g} s: it goes on in the cluster"
                    + (f", but {placement.obstacles[0]}" if placement.obstacles else "")
                    + "."
                )
            await asyncio.sleep(_LOOK_AGAIN_S)


def _placement(said: operations_pb2.GetPlacementResponse) -> Placement:
    return Placement(
        replicas=said.replicas,
        replicas_set=said.replicas_set,
        paused=said.paused,
        balancing=said.balancing,
        nodes=tuple(
            PlacementNode(each.node, each.room, each.silent_ms, each.gone, each.draining, each.leaving)
            for each in said.nodes
        ),
        shards=tuple(
            PlacementShard(
                each.shard,
                each.leader,
                each.log_bytes,
                each.wanted,
                tuple(
                    PlacementReplica(replica.node, replica.voter, replica.answers, replica.lag_bytes)
                    for replica in each.replicas
                ),
            )
            for each in said.shards
        ),
        moves=tuple(map(_move, said.moves)),
        balance=tuple(map(_move, said.balance)),
        leader_changes=said.leader_changes,
        obstacles=tuple(said.obstacles),
    )


def _move(said: operations_pb2.ReplicaMove) -> PlacementMove:
    reason = MOVE_REASONS.get(said.reason, "other")
    return PlacementMove(said.shard, said.to, said.source, reason, said.begun_ms, said.lag_bytes, said.trouble)

"""The fault `move_while_claimed`: a member's request to move a message arrives at the moment at which its queue is
being claimed or reset.

    the member asks to move a message      kept back at the node .................. handled
    an operator resets the queue, or                               a reset or claim
    the member stands still and loses it                           is on its way into the log

The entry of the move would come after the entry of the claim, and a replica does not check a move when it applies it.
The leader must refuse the move.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.rpc_server import Context, Handler
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from ledger.retries import consumer_group_of
from ledger.state.progress_table import ConsumedQueue
from ledger.v1 import consumer_group_pb2 as pb2

LOOK_STEP_S = 0.0005


@dataclass(frozen=True, slots=True)
class _KeptMove:
    """A request to move a message that waits at a node."""

    node: StackNode
    request: pb2.MoveRequest
    # Done when the node may handle the request.
    may_go: asyncio.Future[None]

    @property
    def is_claimed(self) -> bool:
        """Whether a claim or reset of the queue is on its way into the log at this node."""
        local, request = self.node.part(self.request.shard).local, self.request
        if not self.node.alive or local is None or local.shard_consumption is None:
            return False
        key = ConsumedQueue(request.consumer_group, request.topic_id, request.queue)
        return local.shard_consumption.claims._under_way[key] > 0


class MoveWhileClaimed(DirectedFault):
    kind = "move_while_claimed"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # Until when the next request to move a message is kept back.
        self._until = 0.0
        self._random = Random(0)
        self._kept: _KeptMove | None = None

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        if self._kept is None:
            self._random = chance_of(event)
            self._until = self.tools.loop.time() + event.for_ms / 1000
        return False  # counted when a move is handled while its queue is being claimed

    def watched(self, node: StackNode, method: str, handler: Handler) -> Handler:
        if method != "Move":
            return handler

        async def move(request: pb2.MoveRequest, context: Context) -> Any:
            leader = self.tools.leader(request.shard)
            if self._kept is None and self.tools.loop.time() < self._until and leader is node:
                await self._keep(_KeptMove(node, request, asyncio.get_running_loop().create_future()), context.caller)
            return await handler(request, context)

        return move

    async def _keep(self, kept: _KeptMove, member: int) -> None:
        self._kept, consumption, request = kept, self.tools.consumption, kept.request
        # A message behind a reset of its retry queue can end in the dead letters twice, so retry queues are not reset.
        is_retried = consumer_group_of(consumption.truth.topics[request.topic_id]) is not None
        if not is_retried and self._random.random() < 0.5:
            consumption.reset_queue(request.consumer_group, request.topic_id, request.queue, self._random)
        else:
            consumption.stands_still(member, self._until - self.tools.loop.time())
        self._look(kept)
        try:
            await kept.may_go
        finally:
            self._kept = None

    def _look(self, kept: _KeptMove) -> None:
        if kept.may_go.done() or self._kept is not kept:
            return
        is_claimed = kept.is_claimed
        if is_claimed or not kept.node.alive or self.tools.loop.time() >= self._until:
            self.tools.happened[self.kind] += is_claimed
            self._until = 0.0
            kept.may_go.set_result(None)
        else:
            self.tools.loop.call_later(LOOK_STEP_S, self._look, kept)

    def heal(self) -> None:
        self._until = 0.0

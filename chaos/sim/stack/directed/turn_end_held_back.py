"""The fault `turn_end_held_back`: a leader appends the batches of a turn, and dies before it appends the turn's end.

    leader        | batch of queue 0 | batch of queue 3 |   SettleTimed is held back, and the leader dies
    next leader   | batch of queue 0 | batch of queue 3 |   knows the delivered messages only as open ones

Usually the entries of a turn are in one write and in one message, so a leader seldom dies between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import LedgerError
from ledger.state.commands import Command, SettleTimed

Propose = Callable[[Command], asyncio.Future[Any]]


class _Holder:
    """Stands before the proposals of one leader, and keeps the ends of its turns."""

    def __init__(self, node: StackNode, replica: BrokerReplica, seconds: float) -> None:
        """The node will be down for `seconds`."""
        self.node, self.seconds = node, seconds
        self.process = node.process
        self._propose: Propose = replica.propose_checked
        self._kept: list[tuple[Command, asyncio.Future[Any]]] = []
        self._is_over = False

    def propose(self, command: Command) -> asyncio.Future[Any]:
        if self._is_over or not isinstance(command, SettleTimed):
            return self._propose(command)
        kept: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._kept.append((command, kept))
        return kept

    def release(self) -> None:
        """Let the leader end its turns after all, as if a disk had been slow."""
        self._is_over = True
        for command, kept in self._kept:
            try:
                proposed = self._propose(command)
            except LedgerError as error:  # it leads no more
                kept.set_exception(error)
            else:
                proposed.add_done_callback(partial(_pass_on, kept))


def _pass_on(kept: asyncio.Future[Any], proposed: asyncio.Future[Any]) -> None:
    """Give the result of a proposal to the turn that waits for it."""
    if kept.done():
        return
    if (error := proposed.exception()) is not None:
        kept.set_exception(error)
    else:
        kept.set_result(proposed.result())


class TurnEndHeldBack(DirectedFault):
    kind = "turn_end_held_back"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # By shard.
        self._holders: dict[int, _Holder] = {}
        tools.workload.timed.on_delivery.append(self._delivered)

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader = self.tools.leader(shard)
        replica = leader.part(shard).replica if leader is not None and leader.alive else None
        if shard not in self._holders and leader is not None and replica is not None:
            self._holders[shard] = holder = _Holder(leader, replica, event.for_ms / 1000)
            replica.propose_checked = holder.propose  # type: ignore[method-assign]
        return False  # counted when the leader dies

    def heal(self) -> None:
        for shard in list(self._holders):
            self._end(shard)

    def _delivered(self, shard: int) -> None:
        if shard in self._holders:
            self.tools.loop.call_later(0.0, self._end, shard)

    def _end(self, shard: int) -> None:
        holder = self._holders.pop(shard, None)
        if holder is None or holder.node.process is not holder.process or not holder.node.alive:
            return
        if not self.tools.power.may_kill(holder.node):
            holder.release()
            return
        self.tools.power.kills(holder.node)
        holder.node.kill()
        self.tools.happened[self.kind] += 1
        self.tools.loop.call_later(holder.seconds, holder.node.start_again)

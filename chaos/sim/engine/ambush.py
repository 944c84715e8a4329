"""Faults that wait for the moment at which they hurt most: a vote, an election, an acknowledgement.

A mistake in the order of saving and telling shows only if something breaks between the two; what comes at a random
moment rarely does. An ambush is laid by the schedule and sprung by the next such moment, once.

Must not know: what it does when it is sprung.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from chaos.sim.engine.loop import SimLoop
from chaos.sim.protocol.node import ProtocolNode

Trap = Callable[[ProtocolNode], None]


class Moment(Enum):
    VOTED = "voted"
    ELECTED = "elected"
    ACKNOWLEDGED = "acknowledged"


class Ambush:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._traps: dict[Moment, list[tuple[float, Trap]]] = {moment: [] for moment in Moment}

    def lay(self, moment: Moment, delay_s: float, trap: Trap) -> None:
        """Calls the trap with the node that next has such a moment, so long after it."""
        self._traps[moment].append((delay_s, trap))

    def comes(self, moment: Moment, node: ProtocolNode) -> None:
        """That node has such a moment now. What it does in the present event it still does."""
        traps = self._traps[moment]
        if traps:
            delay_s, trap = traps.pop(0)
            self._loop.call_later(delay_s, trap, node)

    def clear(self) -> None:
        for traps in self._traps.values():
            traps.clear()

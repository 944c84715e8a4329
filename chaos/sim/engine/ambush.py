"""An ambush is a fault that waits for a critical moment: a vote, an election or an acknowledgement.

Suppose that a node wrongly acts before it has saved its state. The mistake has an effect only if a fault happens
between the action and the save. A fault at a random time rarely happens between these two steps. Therefore the
schedule sets an ambush for one kind of critical moment, and the next moment of this kind triggers the fault once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from chaos.sim.engine.loop import SimLoop
from chaos.sim.protocol.node import ProtocolNode

Trap = Callable[[ProtocolNode], None]


class CriticalMoment(Enum):
    """A moment in the life of a node at which a fault can be triggered."""

    VOTED = "voted"
    ELECTED = "elected"
    ACKNOWLEDGED = "acknowledged"


class Ambush:
    """The ambushes that were set and have not been triggered yet."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._traps: dict[CriticalMoment, list[tuple[float, Trap]]] = {moment: [] for moment in CriticalMoment}

    def lay(self, moment: CriticalMoment, delay_s: float, trap: Trap) -> None:
        """Set an ambush: wait for the next moment of this kind, and `delay_s` seconds later call `trap` with the
        node at which the moment happened."""
        self._traps[moment].append((delay_s, trap))

    def comes(self, moment: CriticalMoment, node: ProtocolNode) -> None:
        """Report that a critical moment of the node happens now. The trap runs after the current event of the node."""
        traps = self._traps[moment]
        if traps:
            delay_s, trap = traps.pop(0)
            self._loop.call_later(delay_s, trap, node)

    def clear(self) -> None:
        for traps in self._traps.values():
            traps.clear()

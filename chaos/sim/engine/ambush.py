"""Implements ambushes: an ambush is a fault that waits for a critical moment, such as a vote, an election or an
acknowledgement.

Suppose that a node by mistake sends a message before it has saved its state. Such a mistake has an effect only if a
fault happens after the node has sent the message and before the node has saved its state. A fault at a random time
rarely happens exactly between sending a message and saving the state. For this reason, the schedule sets an ambush for
one kind of critical moment, and the next moment of this kind triggers the fault once.
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
    """Holds the ambushes that have not been triggered yet. An ambush is a function that waits for a critical moment
    of a node."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._traps: dict[CriticalMoment, list[tuple[float, Trap]]] = {moment: [] for moment in CriticalMoment}

    def lay(self, moment: CriticalMoment, delay_s: float, trap: Trap) -> None:
        """Set an ambush, which waits for the next critical moment of this kind. When a critical moment of this kind
        happens at a node, the function `trap` is called with the node, `delay_s` seconds later."""
        self._traps[moment].append((delay_s, trap))

    def comes(self, moment: CriticalMoment, node: ProtocolNode) -> None:
        """A critical moment of this kind happens now at the node: trigger the oldest ambush for this kind. The
        function of the ambush is called after the current event of the node."""
        traps = self._traps[moment]
        if traps:
            delay_s, trap = traps.pop(0)
            self._loop.call_later(delay_s, trap, node)

    def clear(self) -> None:
        for traps in self._traps.values():
            traps.clear()

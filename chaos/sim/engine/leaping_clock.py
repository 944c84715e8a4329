"""The only clock of a run that leaps, for the fault `clock_leap` of both worlds. A second such clock could make a
majority of wrong clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.targets import chance_of
from chaos.sim.world import SimNode

DAY_MS = 86_400_000
MOST_DAYS = 400

Node = TypeVar("Node", bound=SimNode)


class LeapingClock(Generic[Node]):
    """The first node whose clock leaps is the only node whose clock ever leaps in this run."""

    def __init__(self, loop: SimLoop, move: Callable[[Node, int], None]) -> None:
        """`move(node, by_ms)` moves the clock of a node."""
        self._loop = loop
        self._move = move
        self._node: Node | None = None
        # By how much its clock has leapt, in ms.
        self._leapt = 0

    def leap(self, event: FaultEvent, target: Node) -> bool:
        """Let the clock leap by a day to 400 days, until the fault is over. `target` is hit if no clock of the run has
        leapt before. Return False if the node is down, or its clock is wrong already."""
        node, random = self._node or target, chance_of(event)
        if not node.alive or self._leapt:
            return False
        self._node, self._leapt = node, random.choice((-1, 1)) * random.randint(DAY_MS, MOST_DAYS * DAY_MS)
        self._move(node, self._leapt)
        self._loop.call_later(event.for_ms / 1000, self.set_right)
        return True

    def set_right(self) -> None:
        if self._node is not None:
            self._move(self._node, -self._leapt)
            self._leapt = 0

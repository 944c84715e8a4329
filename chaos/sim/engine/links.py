"""One direction between two endpoints: whether it is open, and how long what is sent takes.

Everything that can happen to a message on its way is drawn here, in one place, from one source of chance. Must not
know: what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from random import Random


@dataclass(frozen=True, slots=True)
class Conditions:
    """How bad the network is while nobody breaks it on purpose. Rates are per message, 0..1; times in milliseconds."""

    # The shortest time on the way.
    delay_ms: float = 0.5
    # How much longer it takes on average; exponentially distributed.
    spread_ms: float = 1.0
    loss: float = 0.0
    duplicate: float = 0.0
    # Kept back for up to `reorder_ms`, so that others overtake it. Without it each direction keeps its order.
    reorder: float = 0.0
    reorder_ms: float = 100.0
    # Delivered once more, up to `replay_ms` later, whatever has happened since.
    replay: float = 0.0
    replay_ms: float = 30_000.0
    # How long a broken connection goes unnoticed when the network is silent.
    detect_ms: float = 3_000.0

    def __post_init__(self) -> None:
        assert self.loss + self.duplicate + self.reorder + self.replay < 1, "these exclude each other for a message"


class Link:
    """From one endpoint to another."""

    __slots__ = ("clogged_until", "cuts", "last_arrival", "slow_s")

    def __init__(self) -> None:
        # By how many faults it is cut at the moment; while it is, nothing arrives.
        self.cuts = 0
        # Until then everything is kept back, in order.
        self.clogged_until = 0.0
        # Beside the usual delay.
        self.slow_s = 0.0
        # Of what keeps its order.
        self.last_arrival = 0.0

    @property
    def cut(self) -> bool:
        return self.cuts > 0

    def waiter(self, now: float, conditions: Conditions, random: Random) -> float:
        """When something that is sent now, and keeps its order, arrives."""
        longer = -log(1.0 - random.random()) * conditions.spread_ms
        at = max(now + (conditions.delay_ms + longer) / 1000 + self.slow_s, self.clogged_until, self.last_arrival)
        self.last_arrival = at
        return at

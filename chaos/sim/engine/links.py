"""Defines `Link`, the one-way link that carries messages from one endpoint to another endpoint. A link knows whether
it is cut, and calculates when a message arrives.

`Conditions` holds the error rates and delays of the whole network.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from random import Random


@dataclass(frozen=True, slots=True)
class Conditions:
    """The error rates and delays of the whole network, without scheduled faults. Each rate is a probability for one
    message, from 0 to 1. Each time is in milliseconds."""

    # Shortest delay of a message.
    delay_ms: float = 0.5
    # Mean of the additional delay, which is exponentially distributed.
    spread_ms: float = 1.0
    loss: float = 0.0
    duplicate: float = 0.0
    # Rate of messages delayed by up to `reorder_ms`, so that later messages overtake them.
    reorder: float = 0.0
    reorder_ms: float = 100.0
    # Rate of messages that are delivered a second time, up to `replay_ms` later.
    replay: float = 0.0
    replay_ms: float = 30_000.0
    # How long an endpoint does not notice a broken connection.
    detect_ms: float = 3_000.0

    def __post_init__(self) -> None:
        assert self.loss + self.duplicate + self.reorder + self.replay < 1, "the sum of the four rates must be below 1"


class Link:
    """The one-way link from one endpoint to another."""

    __slots__ = ("clogged_until", "cuts", "last_arrival", "slow_s")

    def __init__(self) -> None:
        # Number of active faults that cut this link. While it is not 0, nothing arrives.
        self.cuts = 0
        # Until this time all messages are held back in order.
        self.clogged_until = 0.0
        # Delay in addition to the usual delay, in seconds.
        self.slow_s = 0.0
        # When the latest message that keeps its order arrives.
        self.last_arrival = 0.0

    @property
    def cut(self) -> bool:
        return self.cuts > 0

    def waiter(self, now: float, conditions: Conditions, random: Random) -> float:
        """Return the arrival time of a message that is sent now and must not overtake earlier messages of this
        link."""
        longer = -log(1.0 - random.random()) * conditions.spread_ms
        at = max(now + (conditions.delay_ms + longer) / 1000 + self.slow_s, self.clogged_until, self.last_arrival)
        self.last_arrival = at
        return at

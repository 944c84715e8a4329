"""Lets the regular looks of a node happen together, so that an idle node wakes rarely.

Each wake of an idle process costs more than the look itself: about 0.1 ms of processor time.
"""

from __future__ import annotations

import asyncio
import math

# Waits end at multiples of this time of the event loop's clock.
GRID_S = 0.5
# The event loop's clock counts whole ms, so a wait may end this much before its time.
_EARLY_S = 0.001


def shared_wait_s(wait_s: float) -> float:
    """Return a wait that ends together with the other shared waits of this process, in seconds. It is at most `wait_s`,
    and at most `GRID_S` shorter. A wait shorter than `GRID_S` is returned unchanged."""
    if wait_s < GRID_S:
        return wait_s
    now_s = asyncio.get_running_loop().time()
    end_s = math.floor((now_s + wait_s + _EARLY_S) / GRID_S) * GRID_S
    return max(0.0, end_s - now_s)

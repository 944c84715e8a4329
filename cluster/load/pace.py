"""The time at which each message of an open loop is due, whatever happened to the messages before it.

Message n is due at `start + n / rate`. A load that cannot keep up falls behind this plan. Latencies count from the time
at which a message was due, so every message that had to wait shows its wait.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Pace:
    """The plan of `rate` messages a second from `start_ns` on."""

    def __init__(self, rate: float, start_ns: int) -> None:
        self._rate, self._start_ns = rate, start_ns

    def due_ns(self, number: int) -> int:
        """Return when message `number`, counted from 0, is due."""
        return self._start_ns + int(number * 1e9 / self._rate)

    def all_due_ns(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when each of these messages is due."""
        return self._start_ns + (numbers * (1e9 / self._rate)).astype(np.int64)

    def due_by(self, now_ns: int) -> int:
        """Return how many messages are due by now."""
        return max(0, int((now_ns - self._start_ns) * self._rate / 1e9) + 1)

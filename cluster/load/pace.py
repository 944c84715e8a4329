"""When each message of an open loop is due, whatever became of those before it.

The n-th message is due at `start + n / rate`. A load that cannot keep up falls behind that plan, and as latencies
count from it, every message that had to wait shows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Pace:
    """`rate` messages a second from `start_ns` on."""

    def __init__(self, rate: float, start_ns: int) -> None:
        self._rate, self._start_ns = rate, start_ns

    def due_ns(self, number: int) -> int:
        """When message `number`, counted from 0, is due."""
        return self._start_ns + int(number * 1e9 / self._rate)

    def all_due_ns(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._start_ns + (numbers * (1e9 / self._rate)).astype(np.int64)

    def due_by(self, now_ns: int) -> int:
        """How many are due by now."""
        return max(0, int((now_ns - self._start_ns) * self._rate / 1e9) + 1)

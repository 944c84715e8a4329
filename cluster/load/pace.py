"""Computes the time at which each message of an open loop is due, independently of the messages before it.

Message n is due at the time `start + n / rate`. If a load cannot reach the rate, its messages are sent later than they
are due. A latency begins at the time at which a message was due, so the latency includes the time that the message had
to wait.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Pace:
    """The plan of an open loop: `rate` messages are due per second, beginning at `start_ns`."""

    def __init__(self, rate: float, start_ns: int) -> None:
        self._rate, self._start_ns = rate, start_ns

    def due_ns(self, number: int) -> int:
        """Return the time at which message `number` (counted from 0) is due."""
        return self._start_ns + int(number * 1e9 / self._rate)

    def all_due_ns(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an array with the due time of each message."""
        return self._start_ns + (numbers * (1e9 / self._rate)).astype(np.int64)

    def due_by(self, now_ns: int) -> int:
        """Return how many messages are due at the time `now_ns` or earlier."""
        return max(0, int((now_ns - self._start_ns) * self._rate / 1e9) + 1)

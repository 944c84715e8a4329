"""Calculates how long a client waits before it tries a failed request again. No I/O.

The wait doubles with each failure in a row, up to a maximum. Each wait is shortened at random by up to half, so that
clients that failed at the same time do not try again at the same time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """`wait_ms(n)` returns the milliseconds to wait after the n-th failure in a row, counted from 1."""

    first_ms: float
    ceiling_ms: float
    random: random.Random

    def wait_ms(self, failures: int) -> float:
        assert failures >= 1
        doublings = min(failures - 1, 32)  # far beyond any ceiling; keeps the power small
        full = min(self.first_ms * (1 << doublings), self.ceiling_ms)
        return full * (0.5 + self.random.random() / 2)

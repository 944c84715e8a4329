"""So much in a second, on average: a token bucket. Pure: the time is passed in, in seconds.

    level   -debt ... 0 ... one second's worth        grows by `rate` each second, up to the brim
                      └── above: something may be taken, however much; that may leave a debt, which is waited for

What is taken is known only when it is there (a fetch), or cannot be had in parts (a batch); so whoever comes while
there is anything left gets all he asks for, and the next one waits until that is made good. On average it is the
rate, and nothing is too large ever to pass.
"""

from __future__ import annotations


class TokenBucket:
    """Full at the beginning."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        """`rate`: a second, > 0; what is there at once is as much."""
        assert rate > 0
        self._rate = rate
        self._level = float(rate)  # <= rate
        self._at = now

    def wait_s(self, now: float) -> float:
        """How long until something may be taken; 0: at once."""
        self._fill(now)
        return 0.0 if self._level > 0 else -self._level / self._rate + 1 / self._rate

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self._level -= amount

    def is_full(self, now: float) -> bool:
        """Whether it is as new."""
        self._fill(now)
        return self._level >= self._rate

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self._level + (now - self._at) * self._rate, float(self._rate))
            self._at = now

"""A token bucket: it limits a rate on average. Pure: the caller passes the time in seconds.

    level   -debt ... 0 ... one second's worth        grows by `rate` each second, up to one second's worth
                      └── above 0, any amount may be taken; that may leave a debt, and the next caller waits for it

The size of a fetch is known only afterwards, and a batch cannot be taken in parts. So a request passes whole while the
level is above 0, and later requests wait until the debt is repaid. On average the rate holds, and no request is too
large."""

from __future__ import annotations


class TokenBucket:
    """A bucket that is full at first."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        """`rate`: tokens for each second, > 0. The bucket holds one second's worth."""
        assert rate > 0
        self._rate = rate
        self._level = float(rate)  # <= rate
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until tokens may be taken; 0: now."""
        self._fill(now)
        return 0.0 if self._level > 0 else -self._level / self._rate + 1 / self._rate

    def take(self, amount: float, now: float) -> None:
        """Take tokens. The level may become negative."""
        self._fill(now)
        self._level -= amount

    def is_full(self, now: float) -> bool:
        """Whether the bucket is full, like a new bucket."""
        self._fill(now)
        return self._level >= self._rate

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self._level + (now - self._at) * self._rate, float(self._rate))
            self._at = now

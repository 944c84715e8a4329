"""A token bucket limits the average rate of requests. The bucket reads no clock; its caller passes the time in
seconds.

    level   -debt ... 0 ... one second's worth        grows by `rate` each second, up to one second's worth
                      └── above 0, any amount may be taken; that may leave a debt, and the next caller waits for it

The size of a fetch is known only after the fetch, and a batch cannot be split. A request of any size is admitted as
a whole while the level of the bucket is above 0, and can make the level negative. Later requests wait until the
level is above 0 again, so the average rate does not exceed the limit."""

from __future__ import annotations


class TokenBucket:
    """A token bucket, which is full when it is created."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        """`rate` is the number of tokens that the bucket gets each second; the number must be above 0. A full
        bucket has the tokens of one second."""
        assert rate > 0
        self._rate = rate
        self._level = float(rate)  # <= rate
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next request can be admitted; 0 means now."""
        self._fill(now)
        return 0.0 if self._level > 0 else -self._level / self._rate + 1 / self._rate

    def take(self, amount: float, now: float) -> None:
        """Take tokens from the bucket. The number of tokens in the bucket can become negative."""
        self._fill(now)
        self._level -= amount

    def is_full(self, now: float) -> bool:
        """Return True if the bucket is full, as a new bucket is."""
        self._fill(now)
        return self._level >= self._rate

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self._level + (now - self._at) * self._rate, float(self._rate))
            self._at = now

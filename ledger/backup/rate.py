"""Limits how many bytes a backup copies in a second, so that it leaves the nodes and the network to clients."""

from __future__ import annotations

import time
from collections.abc import Callable

# A pause of the limit, such as a slow write to the target, is made up for by at most so many seconds of the rate.
_BURST_S = 0.1


class RateLimit:
    def __init__(
        self,
        bytes_per_s: int,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`bytes_per_s` = 0 sets no limit."""
        self._rate = bytes_per_s
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        # The time at which all bytes that were taken so far have passed at the rate.
        self._due_s = monotonic_s()

    def take(self, count: int) -> None:
        """Wait until `count` more bytes may be copied."""
        if not self._rate:
            return
        now = self._monotonic_s()
        self._due_s = max(self._due_s, now - _BURST_S) + count / self._rate
        if self._due_s > now:
            self._sleep(self._due_s - now)

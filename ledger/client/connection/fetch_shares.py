"""Limits the size of fetches when many consumers of one process fetch at the same time.

Fetched messages wait in memory until the program reads them. A hundred consumers that each fetch megabytes ahead fill
more memory than the caches of a processor hold, and reading the messages then takes longer than a few more fetches.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

# The fetches of all fetchers together have this size, but a fetch has at least LEAST_BYTES.
TOTAL_BYTES = 32 << 20
LEAST_BYTES = 256 << 10


class FetchShares:
    """The fetchers of a process, in all its event loops and threads."""

    def __init__(self) -> None:
        # A program may drop its consumers without closing them.
        self._fetchers: WeakSet[object] = WeakSet()
        self._lock = threading.Lock()

    def join(self, fetcher: object) -> None:
        with self._lock:
            self._fetchers.add(fetcher)

    def leave(self, fetcher: object) -> None:
        with self._lock:
            self._fetchers.discard(fetcher)

    def fetch_bytes(self, max_bytes: int) -> int:
        """Return the size of the next fetch of a fetcher whose fetches have at most `max_bytes`."""
        with self._lock:
            share = TOTAL_BYTES // max(1, len(self._fetchers))
        return min(max_bytes, max(LEAST_BYTES, share))

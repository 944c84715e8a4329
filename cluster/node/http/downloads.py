"""Limits the downloads of one node: how many run at the same time, in total and for each caller, and how slow each may
be.

A download holds a thread and an open file while it runs. A client that takes fewer bytes than the least rate, over
`WINDOW_S`, loses its connection, so that another client gets its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from cluster.node.http.deadline import DEADLINE
from cluster.node.http.http_rights import CALLER
from ledger.broker.access.places import Places, host_of

RETRY_AFTER_S = 1
# The time over which the rate of a download is measured, and the longest time in which a client may take no byte.
WINDOW_S = 30.0


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """`least_bytes_per_s` is the least rate of a download."""

    most: int = 16
    most_of_a_caller: int = 8
    least_bytes_per_s: int = 64 << 10


class DownloadPace:
    """Whether a client takes a download quickly enough."""

    def __init__(self, least_bytes_per_s: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._least = least_bytes_per_s
        self._monotonic_s = monotonic_s
        self._since_s = monotonic_s()
        # The bytes that the client has taken since then.
        self._taken = 0

    def moved(self, count: int) -> None:
        """Count bytes that the client took. Raises ConnectionError at the end of a window in which the client took too
        few."""
        self._taken += count
        seconds = self._monotonic_s() - self._since_s
        if seconds < WINDOW_S:
            return
        if self._taken < max(1, self._least * seconds):
            raise ConnectionAbortedError(
                f"the client has taken {self._taken} bytes in {seconds:.0f} s, and the least rate of a download is "
                f"{self._least} bytes a second"
            )
        self._since_s, self._taken = self._monotonic_s(), 0


class Downloads:
    """The places of the downloads of one node."""

    def __init__(self, limits: DownloadLimits) -> None:
        self._limits = limits
        self._places = Places(limits.most, limits.most_of_a_caller)

    @contextmanager
    def place(self, request: web.Request) -> Iterator[DownloadPace]:
        """Hold a place for the `with` block. Raises HTTP 503 with Retry-After if there is none."""
        caller = request.get(CALLER) or host_of(request.remote or "")
        if reason := self._places.take(caller):
            raise web.HTTPServiceUnavailable(
                text=f"too many downloads: {reason}; try again shortly", headers={"Retry-After": str(RETRY_AFTER_S)}
            )
        try:
            if (deadline := request.get(DEADLINE)) is not None:
                deadline.reschedule(None)
            yield DownloadPace(self._limits.least_bytes_per_s)
        finally:
            self._places.give_back(caller)

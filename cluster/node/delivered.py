"""Counts what the methods of a gRPC server got on each connection.

gRPC holds the bytes of a message until the message is complete, and does not tell how many it holds. What a connection
has brought, less what the methods got, is what gRPC holds (security/connection_limits.py).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass


@dataclass(slots=True)
class Received:
    """A number of requests, and their bytes."""

    requests: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.requests += 1
        self.bytes += size


class Delivered:
    """What the methods of one server got. A connection has the name that gRPC gives it: "ipv4:127.0.0.1:40000"."""

    def __init__(self) -> None:
        # From all connections since the start.
        self.total = Received()
        self._of: dict[str, Received] = {}
        # The connections that the last `keep` did not name. The next `keep` forgets them.
        self._absent: set[str] = set()

    def add(self, peer: str, size: int) -> None:
        received = self._of.get(peer)
        if received is None:
            received = self._of[peer] = Received()
        received.add(size)
        self.total.add(size)

    def of(self, peer: str) -> Received:
        return self._of.get(peer) or Received()

    def keep(self, peers: Container[str]) -> None:
        """Forget the connections that neither this call nor the call before names. A connection can be so new that
        `peers` lacks it."""
        absent = {peer for peer in self._of if peer not in peers}
        for peer in absent & self._absent:
            del self._of[peer]
        self._absent = absent

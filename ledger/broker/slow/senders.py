"""Remembers which client has which producer id. Batches carry the id of their producer, and no name of a client."""

from __future__ import annotations

from collections import OrderedDict

from ledger.slow_request import CallingClient

# Producer ids whose clients a node remembers.
MAX_SENDERS = 10_000


class Senders:
    """The clients of the producer ids that this node has received, least recently seen first. After a restart, or on
    another node, a client is unknown until it sends again."""

    def __init__(self, most: int = MAX_SENDERS) -> None:
        self._most = most
        self._clients: OrderedDict[int, CallingClient] = OrderedDict()

    def note(self, producer_id: int, client: CallingClient) -> None:
        """Record that the producer is of this client."""
        self._clients[producer_id] = client
        self._clients.move_to_end(producer_id)
        if len(self._clients) > self._most:
            self._clients.popitem(last=False)

    def get(self, producer_id: int) -> CallingClient | None:
        """Return the client of the producer, or None if this node does not know it."""
        return self._clients.get(producer_id)

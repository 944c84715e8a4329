"""What each client may have of this node in a second, in messages and in bytes; kept for producers and for consumers.

A client that has had its share is refused, and told for how long; nothing of what it asked for was done, so it asks
once more. The table of clients is bounded: one that owes nothing is as good as one that is not known, so it can be
forgotten; where all owe, newcomers share one account.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from ledger.broker.quotas.token_bucket import TokenBucket
from ledger.errors import ThrottledError

MAX_CLIENTS = 10_000
_LOOKED_AT = 8
"""Clients, at most, to find one that can be forgotten."""
MAX_THROTTLE_MS = 10_000
"""A client that owes for longer asks again in between."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A second, of one client; 0: as much as it likes."""

    bytes_per_s: int = 0
    messages_per_s: int = 0


class Quota:
    """Of one kind of request on one node."""

    def __init__(self, what: str, rates: Rates, *, max_clients: int = MAX_CLIENTS) -> None:
        """`what` a client does too much of, as in "sends"."""
        self._what = what
        self._rates = rates
        self._max_clients = max_clients
        # In the order of their last charge, or of when they were last looked at.
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._shared: _Account | None = None
        """Of those for whom there is no room."""

    @property
    def is_set(self) -> bool:
        return self._rates != Rates()

    @property
    def clients(self) -> int:
        """How many are known."""
        return len(self._accounts)

    def admit(self, client: str, now: float) -> None:
        """Raises ThrottledError where the client has had its share."""
        account = self._accounts.get(client) or (self._shared if len(self._accounts) >= self._max_clients else None)
        wait_s = account.wait_s(now) if account is not None else 0.0
        if wait_s > 0:
            wait_ms = min(math.ceil(wait_s * 1000), MAX_THROTTLE_MS)
            raise ThrottledError(
                f"this client {self._what} more than its quota on this node ({self._told()}): wait {wait_ms} ms",
                throttle_ms=wait_ms,
            )

    def charge(self, client: str, messages: int, size: int, now: float) -> None:
        """The client has had that."""
        if self.is_set:
            self._account(client, now).take(messages, size, now)

    def _account(self, client: str, now: float) -> _Account:
        account = self._accounts.get(client)
        if account is not None:
            self._accounts.move_to_end(client)
            return account
        if len(self._accounts) >= self._max_clients and not self._forget_one(now):
            self._shared = self._shared or _Account(self._rates, now)
            return self._shared
        account = self._accounts[client] = _Account(self._rates, now)
        return account

    def _forget_one(self, now: float) -> bool:
        """The first of those at the front that owes nothing, if there is one."""
        for _ in range(min(_LOOKED_AT, len(self._accounts))):
            client, account = next(iter(self._accounts.items()))
            if account.is_full(now):
                del self._accounts[client]
                return True
            self._accounts.move_to_end(client)
        return False

    def _told(self) -> str:
        rates = ((self._rates.bytes_per_s, "bytes/s"), (self._rates.messages_per_s, "messages/s"))
        return ", ".join(f"{rate} {unit}" for rate, unit in rates if rate)


class _Account:
    """Of one client."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self, rates: Rates, now: float) -> None:
        self._bytes = TokenBucket(rates.bytes_per_s, now) if rates.bytes_per_s else None
        self._messages = TokenBucket(rates.messages_per_s, now) if rates.messages_per_s else None

    def wait_s(self, now: float) -> float:
        return max(bucket.wait_s(now) if bucket else 0.0 for bucket in (self._bytes, self._messages))

    def take(self, messages: int, size: int, now: float) -> None:
        if self._bytes is not None:
            self._bytes.take(size, now)
        if self._messages is not None:
            self._messages.take(messages, now)

    def is_full(self, now: float) -> bool:
        return all(bucket is None or bucket.is_full(now) for bucket in (self._bytes, self._messages))

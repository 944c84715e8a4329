"""Quotas limit how many messages and bytes one client can send or fetch in a second on this node.

A client that has exceeded its quota is refused before its request has any effect, and is told how long to wait. The
number of clients in the table is limited. If a client's account is full, the table can forget the client, because a
new account is full too. If no account can be forgotten, new clients share one account."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from ledger.broker.quotas.token_bucket import TokenBucket
from ledger.errors import ThrottledError

MAX_CLIENTS = 10_000
# How many clients are looked at, at most, to find one that can be forgotten.
_LOOKED_AT = 8
# The longest wait that a client is told. It asks again after that, and may have to wait again.
MAX_THROTTLE_MS = 10_000


@dataclass(frozen=True, slots=True)
class QuotaRates:
    """The quota of one client; 0 means no limit."""

    bytes_per_s: int = 0
    messages_per_s: int = 0


class Quota:
    """The quota of every client for one kind of request on one node."""

    def __init__(self, what: str, rates: QuotaRates, *, max_clients: int = MAX_CLIENTS) -> None:
        """`what` is the verb for error messages, such as "sends"."""
        self._what = what
        self._rates = rates
        self._max_clients = max_clients
        # By client, in the order of the last charge, or of the last look for an account to forget.
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        # The account of the clients for which the table has no room.
        self._shared: _Account | None = None

    @property
    def is_set(self) -> bool:
        return self._rates != QuotaRates()

    @property
    def clients(self) -> int:
        """The number of clients that have their own account."""
        return len(self._accounts)

    def admit(self, client: str, now: float) -> None:
        """Raise ThrottledError if the client has exceeded its quota. `now` is in seconds."""
        account = self._accounts.get(client) or (self._shared if len(self._accounts) >= self._max_clients else None)
        wait_s = account.wait_s(now) if account is not None else 0.0
        if wait_s > 0:
            wait_ms = min(math.ceil(wait_s * 1000), MAX_THROTTLE_MS)
            raise ThrottledError(
                f"this client {self._what} more than its quota on this node ({self._told()}): wait {wait_ms} ms",
                throttle_ms=wait_ms,
            )

    def charge(self, client: str, messages: int, size: int, now: float) -> None:
        """Subtract the messages and the bytes of a request from the client's account. `now` is in seconds."""
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
        """Look at the first few clients of the table, and remove the first client with a full account. Return True
        if a client was removed."""
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
    """The account of one client."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self, rates: QuotaRates, now: float) -> None:
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

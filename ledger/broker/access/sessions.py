"""The proven callers of this node: one session for each connection.

A session belongs to one TCP connection, so a token that somebody copies is of no use on another connection. A node
keeps its sessions in memory: after a restart, or on another node, a client proves itself again.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from ledger.broker.access.callers import Caller

# After this time a client proves itself again.
SESSION_S = 3600.0
# The oldest session ends when there are more.
MAX_SESSIONS = 50_000
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    token: str
    caller: Caller
    expires_ms: float

    def __repr__(self) -> str:
        return f"Session({self.caller})"  # the token is a secret


class Sessions:
    """The sessions of one node, by the peer of the connection as gRPC names it ("ipv4:127.0.0.1:40000")."""

    def __init__(self, monotonic_ms: Callable[[], float], max_sessions: int = MAX_SESSIONS) -> None:
        self._monotonic_ms = monotonic_ms
        self._max_sessions = max_sessions
        # The oldest first.
        self._by_peer: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_peer)

    def open(self, caller: Caller, peer: str) -> Session:
        """Return a new session of the connection, which replaces its earlier session."""
        now_ms = self._monotonic_ms()
        self._by_peer.pop(peer, None)
        self._drop_expired(now_ms)
        while len(self._by_peer) >= self._max_sessions:
            del self._by_peer[next(iter(self._by_peer))]
        session = Session(secrets.token_urlsafe(TOKEN_BYTES), caller, now_ms + SESSION_S * 1000)
        self._by_peer[peer] = session
        return session

    def caller(self, token: str, peer: str) -> Caller | None:
        """Return the caller whose session on this connection has this token, or None."""
        session = self._by_peer.get(peer)
        if session is None or not hmac.compare_digest(session.token.encode(), token.encode()):
            return None
        if session.expires_ms <= self._monotonic_ms():
            del self._by_peer[peer]
            return None
        return session.caller

    def _drop_expired(self, now_ms: float) -> None:
        while self._by_peer:
            peer, session = next(iter(self._by_peer.items()))
            if session.expires_ms > now_ms:
                return
            del self._by_peer[peer]

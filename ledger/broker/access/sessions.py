"""The proven callers of this node: a session for each proof, with a token.

A session belongs to one TCP connection, so a token that somebody copies is of no use on another connection. It ends
with the connection, because a later connection of the same host can have the same port. Several users can share a
connection, as gRPC shares connections between the channels of one process. A node keeps its sessions in memory: after a
restart, or on another node, a client proves itself again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ledger.broker.access.callers import Caller
from ledger.broker.access.proofs import digest_of, token_text

# After this time a client proves itself again.
SESSION_S = 3600.0
# The oldest session ends when there are more: on the node, and on one connection.
MAX_SESSIONS = 50_000
MAX_SESSIONS_OF_A_CONNECTION = 64
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """`peer` names the connection as gRPC does: "ipv4:127.0.0.1:40000"."""

    caller: Caller
    peer: str
    expires_ms: float


class Sessions:
    """The sessions of one node, by the SHA-256 of the token."""

    def __init__(
        self,
        monotonic_ms: Callable[[], float],
        max_sessions: int = MAX_SESSIONS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._random_bytes = random_bytes
        self._max_sessions = max_sessions
        # The oldest first.
        self._by_digest: dict[bytes, Session] = {}
        # The digests of the sessions of each connection, the oldest first.
        self._of_peer: dict[str, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def has(self, peer: str) -> bool:
        """Return True if a caller has proven itself on this connection."""
        return peer in self._of_peer

    def peers(self) -> set[str]:
        """Return the connections on which callers have proven themselves."""
        return set(self._of_peer)

    def end(self, peers: Iterable[str]) -> None:
        """End the sessions of connections that have ended."""
        for peer in peers:
            for digest in tuple(self._of_peer.get(peer, ())):
                self._drop(digest)

    def open(self, caller: Caller, peer: str) -> str:
        """Return the token of a new session of this connection."""
        now_ms = self._monotonic_ms()
        self._drop_old(now_ms)
        if len(own := self._of_peer.get(peer, {})) >= MAX_SESSIONS_OF_A_CONNECTION:
            self._drop(next(iter(own)))
        token = token_text(self._random_bytes(TOKEN_BYTES))
        digest = digest_of(token)
        self._by_digest[digest] = Session(caller, peer, now_ms + SESSION_S * 1000)
        self._of_peer.setdefault(peer, {})[digest] = None
        return token

    def caller(self, token: str, peer: str) -> Caller | None:
        """Return the caller whose session on this connection has this token, or None."""
        session = self._by_digest.get(digest_of(token))
        if session is None or session.peer != peer or session.expires_ms <= self._monotonic_ms():
            return None
        return session.caller

    def _drop_old(self, now_ms: float) -> None:
        """Make room for one session. The first sessions expire first."""
        while self._by_digest:
            digest, session = next(iter(self._by_digest.items()))
            if session.expires_ms > now_ms and len(self._by_digest) < self._max_sessions:
                return
            self._drop(digest)

    def _drop(self, digest: bytes) -> None:
        peer = self._by_digest.pop(digest).peer
        del self._of_peer[peer][digest]
        if not self._of_peer[peer]:
            del self._of_peer[peer]

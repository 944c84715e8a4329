"""Calls for a user: a client inside a node adds the user's name to the proof of the node.

The node chooses the user for each client, not for each call, so a client calls for one user in its whole life.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.access.forwarded import CALLER_KEY, ForwardedCaller
from ledger.client.connection.session import CallSession, Metadata


class ForwardingSession:
    """Names the caller beside the proof that another session makes. Implements
    `ledger.client.connection.session.CallSession`."""

    def __init__(self, session: CallSession, caller: Callable[[], ForwardedCaller]) -> None:
        """`caller()` returns whom the next call is for. It raises AuthenticationError if the user may not call any
        more, so that no call begins."""
        self._session = session
        self._caller = caller

    async def metadata(self) -> Metadata:
        """Return what a call sends. Raises AuthenticationError, and the errors of the other session."""
        proof = await self._session.metadata()
        return (*proof, (CALLER_KEY, self._caller().header()))

    def ended(self, metadata: Metadata) -> None:
        self._session.ended(metadata[:-1])

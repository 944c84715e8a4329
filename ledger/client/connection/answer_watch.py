"""Notices that another node leads a shard while a request to its former leader has no answer.

A suspended node keeps its connections and answers nothing. The other nodes elect a leader within about a second, and a
request that waits for the old one would fail at the time limit of a program that could have had its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.client.connection.routes import Routes

# How long an answer may take before the client asks for the present leader, and how often it looks then.
STALL_S = 1.5
LOOK_S = 0.25


class AnswerWatch:
    """Watches one request from its construction to `cancel`. Calls `moved` once if another node leads the shard."""

    __slots__ = ("_address", "_moved", "_routes", "_shard", "_timer")

    def __init__(
        self, routes: Routes, shard: int, address: str, moved: Callable[[], None], expected_s: float = 0.0
    ) -> None:
        """The request was sent to the node at `address`. A node that leads may take `expected_s` for it."""
        self._routes = routes
        self._shard = shard
        self._address = address
        self._moved = moved
        self._timer = asyncio.get_running_loop().call_later(expected_s + STALL_S, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if self._routes.table.leader_address(self._shard) not in (None, self._address):
            self._moved()
            return
        self._routes.refresh_soon()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

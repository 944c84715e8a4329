"""Starts a client, also if nodes are down at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from ledger.errors import LedgerError

_AGAIN_S = 0.3


class _Client(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


C = TypeVar("C", bound=_Client)


@asynccontextmanager
async def running(make: Callable[[], C], stop: asyncio.Event) -> AsyncIterator[C]:
    """Create clients until one can start, and stop this client after the `with` block. If `stop` is set before a
    client could start, the error of the last failed client is raised.
    """
    client = await _started(make, stop)
    try:
        yield client
    finally:
        await client.stop()


async def _started(make: Callable[[], C], stop: asyncio.Event) -> C:
    while True:
        client = make()
        try:
            await client.start()
            return client
        except LedgerError:
            if stop.is_set():
                raise
            await asyncio.sleep(_AGAIN_S)

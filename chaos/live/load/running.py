"""Starts a client, also if nodes are down at the moment. A producer writes its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from chaos.live.load.spec import ClientSpec
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError

_AGAIN_S = 0.3


class _Client(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


C = TypeVar("C", bound=_Client)


def producer_of(spec: ClientSpec, process: int, random: Random) -> AsyncProducer:
    """Return a producer that is the process `process` of the histories."""
    return AsyncProducer(
        list(spec.bootstrap),
        delivery_timeout_ms=spec.delivery_timeout_ms,
        history=Path(spec.history),
        history_process=process,
        rng=random,
    )


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

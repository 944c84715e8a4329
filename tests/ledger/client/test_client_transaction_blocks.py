"""The end of a block of a transaction that is cancelled: the block ends at once, and the rollback follows."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ledger.client.transactions.half_selection import PlacedHalf
from ledger.client.transactions.transaction import AsyncTransaction, TransactionState
from ledger.errors import InvalidArgumentError, UnavailableError
from ledger.transactions import TransactionId


class Port:
    """A producer whose sends have no result until the test says so. It notes the ends of transactions."""

    def __init__(self, failure: UnavailableError | None = None) -> None:
        self.may_end = asyncio.Event()
        self.ends: list[tuple[int, bool]] = []
        self.background: list[asyncio.Task[None]] = []
        self._failure = failure

    async def send_half(self, group: str, begun: object, topic: str, message: object) -> PlacedHalf:
        await self.may_end.wait()
        return PlacedHalf(shard=0, number=7, topic_id=1, queue=0)

    async def end(self, transaction: TransactionId, halves: list[PlacedHalf], *, commit: bool) -> None:
        if self._failure is not None:
            raise self._failure
        self.ends.append((transaction.number, commit))

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        self.background.append(asyncio.get_running_loop().create_task(work))


async def cancelled_block(port: Port) -> AsyncTransaction[bytes]:
    """Return a transaction whose block was ended by a time limit while its first send had no result."""
    transaction: AsyncTransaction[bytes] = AsyncTransaction(port, "orders", "checkout")
    async with asyncio.timeout(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), transaction:
                await transaction.send(b"one")
    return transaction


async def test_a_block_that_is_cancelled_does_not_wait_for_its_sends() -> None:
    port = Port()
    transaction = await cancelled_block(port)
    assert (transaction.state, port.ends) == (TransactionState.IN_DOUBT, [])
    with pytest.raises(InvalidArgumentError, match="in doubt"):
        await transaction.send(b"two")
    port.may_end.set()
    await asyncio.gather(*port.background)
    assert (transaction.state, port.ends) == (TransactionState.ROLLED_BACK, [(7, False)])


async def test_a_rollback_in_the_background_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(UnavailableError("no leader"))
    transaction = await cancelled_block(port)
    port.may_end.set()
    await asyncio.gather(*port.background)
    assert transaction.state is TransactionState.IN_DOUBT
    assert "a transaction could not be rolled back" in caplog.text


async def test_a_block_that_fails_waits_for_its_rollback() -> None:
    port = Port()
    port.may_end.set()
    transaction: AsyncTransaction[bytes] = AsyncTransaction(port, "orders", "checkout")

    async def block() -> None:
        async with transaction:
            await transaction.send(b"one")
            raise ValueError("the order is wrong")

    with pytest.raises(ValueError, match="the order is wrong"):
        await block()
    assert (transaction.state, port.ends, port.background) == (TransactionState.ROLLED_BACK, [(7, False)], [])

"""Leases that a member keeps are extended shard by shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ledger.client.shared.lease_keeper import LeaseKeeper
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.errors import InternalError, NoLeaderError
from tests.ledger.client.test_client_shared_consumer import message


def leased(shard: int, offset: int) -> SharedMessage[Any]:
    one = message(offset)
    one.lease = MessageLease(shard, 1, 0, offset, 1, 0)
    one.ends_s = 0.0
    return one


async def test_a_shard_without_a_leader_holds_up_no_extension_of_others() -> None:
    extended: dict[int, list[int]] = {0: [], 1: [], 2: []}
    waiting = asyncio.Event()

    async def extend(messages: Sequence[SharedMessage[Any]]) -> None:
        (shard,) = {each.lease.shard for each in messages}
        extended[shard] += [each.lease.offset for each in messages]
        if shard == 1:
            await waiting.wait()
        if shard == 2:
            raise NoLeaderError("no leader")

    keeper = LeaseKeeper(extend, lease_ms=40, on_defect=lambda defect: pytest.fail(str(defect)))
    keeper.keep([leased(0, 5), leased(1, 6), leased(2, 7)])
    run = asyncio.create_task(keeper.run())
    async with asyncio.timeout(10):
        while len(extended[0]) < 3 or len(extended[2]) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert extended[1] == [6], "a shard has one extension under way"
    waiting.set()
    async with asyncio.timeout(10):
        while len(extended[1]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_a_defect_of_an_extension_is_told() -> None:
    async def extend(_: Sequence[SharedMessage[Any]]) -> None:
        raise KeyError("a defect")

    defects: list[InternalError] = []
    keeper = LeaseKeeper(extend, lease_ms=40, on_defect=defects.append)
    keeper.keep([leased(3, 5)])
    run = asyncio.create_task(keeper.run())
    async with asyncio.timeout(10):
        while not defects:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    run.cancel()
    await asyncio.wait([run])
    assert "in shard 3" in str(defects[0])

"""A requester without a cluster: what happens if its task that reads replies fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.background import spawn
from ledger.errors import InternalError
from ledgermq import AsyncRequester


async def test_after_a_defect_of_the_reading_task_all_calls_raise() -> None:
    requester = AsyncRequester(bootstrap_servers="n1:1")
    may_fail = asyncio.Event()

    async def getmany() -> Any:
        await may_fail.wait()
        raise KeyError("a defect")

    async def send(*_: object, **__: object) -> None: ...

    requester._consumer, requester._producer = SimpleNamespace(getmany=getmany), SimpleNamespace(send=send)  # type: ignore[assignment]
    requester._tag, requester._queue = "tag", 0
    requester._reading = spawn(requester._read(), "replies", requester._failed)
    waiting = asyncio.create_task(requester.request("orders", b"1"))
    await asyncio.sleep(0)
    may_fail.set()
    with pytest.raises(InternalError, match="a defect"):
        await waiting
    with pytest.raises(InternalError, match="a defect"):
        await requester.request("orders", b"2")

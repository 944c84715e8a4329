"""The end of the stream by which a node changes leases."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.client.shared.shared_message import ACKNOWLEDGE, MessageLease
from ledger.rocketmq import members as module
from ledger.rocketmq.members import LeaseChanger, WantedLeaseChange


class Link:
    """A link to a leader that does not answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.is_closed = False

    async def changed(self, changes: object) -> Any:
        assert not self.is_closed, "a request after the end opens another stream"
        self.requests += 1
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.is_closed = True
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", [0, 1, 2, 10])
async def test_a_changer_that_closes_begins_no_requests_and_leaves_no_change_waiting(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REQUESTS", 2)
    monkeypatch.setattr(module, "MAX_CHANGES", 1)
    changer, link = LeaseChanger(cast(Any, SimpleNamespace()), "front", "work", 7, 0), Link()
    changer._link = cast(Any, link)
    changes = [
        asyncio.create_task(changer.change(WantedLeaseChange(ACKNOWLEDGE, MessageLease(0, 7, 0, offset, 11, 0))))
        for offset in range(12)  # the later ones gather
    ]
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    await changer.close()
    begun = link.requests
    async with asyncio.timeout(5):
        await asyncio.wait(changes)
    assert all(change.cancelled() for change in changes)
    await asyncio.sleep(0.05)
    assert link.requests == begun <= 2
    assert changer.is_idle
    assert not changer._requests

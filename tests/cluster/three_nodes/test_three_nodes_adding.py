"""A leader that is to add a node waits while the node starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledgermq import AsyncAdmin
from tests.cluster.fleet import Fleet

pytestmark = pytest.mark.real


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Node 1 of a cluster. Node 2 is not started, and can be added."""
    fleet = Fleet(tmp_path, 2)
    fleet.override(1, peers={1: fleet.address(1)})
    fleet.override(2, peers={}, join=True, advertised=fleet.address(2))
    try:
        await fleet.start(1)
        await fleet.leader()
        yield fleet
    finally:
        await fleet.close()


async def test_a_node_that_starts_after_the_command_is_added(fleet: Fleet) -> None:
    asked = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.close()

    host, port = fleet.address(2).rsplit(":", 1)
    early = await asyncio.start_server(hang_up, host, int(port))
    async with AsyncAdmin(fleet.address(1)) as admin:
        adding = asyncio.create_task(admin.add_node(2, fleet.address(2), timeout_ms=30_000))
        async with asyncio.timeout(10):
            await asked.wait()
        early.close()
        await early.wait_closed()
        await fleet.start(2)
        await adding
        assert (await admin.members()).get(2) is not None

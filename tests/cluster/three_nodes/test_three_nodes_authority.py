"""The authority of a running cluster is replaced under a load: no send fails, and no client starts anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cluster.authority import Authority, new_authority
from ledger.errors import LedgerError
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet
from tests.cluster.secured import PASSWORD, node_files, write_authority
from tests.cluster.waiter import eventually

USER: dict[str, Any] = {"user": "admin", "password": PASSWORD}


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    (tmp_path / "password").write_text(PASSWORD)
    settings: dict[str, Any] = {"authentication": True, "first_administrator_password_file": tmp_path / "password"}
    found = Fleet(tmp_path, 3, **settings)
    write_certificates(found, write_authority(tmp_path))
    try:
        await found.start()
        yield found
    finally:
        await found.close()


def write_certificates(fleet: Fleet, authority: Authority) -> None:
    ca = (fleet.directory / "ca.pem").read_bytes()
    for node in fleet.nodes:
        fleet.override(node, **node_files(fleet.directory, authority, node))
    assert (fleet.directory / "ca.pem").read_bytes() == ca


async def follower(admin: AsyncAdmin) -> int:
    """Return a follower that has all that is committed, when all nodes take part."""

    async def found() -> int:
        try:
            members = await admin.members()
        except LedgerError:
            return 0
        if not all(each.caught_up for each in members.members if each.node != members.leader):
            return 0
        return next(each.node for each in members.members if each.node != members.leader)

    return await eventually(found, "all nodes take part")


async def test_the_authority_is_replaced_without_a_failed_send(fleet: Fleet) -> None:
    ca = fleet.directory / "ca.pem"
    new = new_authority("test")

    async def begun() -> bool:
        try:
            async with AsyncAdmin(fleet.bootstrap, ca=ca, **USER) as admin:
                await admin.create_topic("orders", queues=1)
        except LedgerError:
            return False
        return True

    await eventually(begun, "a topic can be created")
    async with (
        AsyncAdmin(fleet.bootstrap, ca=ca, **USER) as admin,
        AsyncProducer(fleet.bootstrap, ca=ca, **USER, delivery_timeout_ms=30_000) as producer,
    ):
        stop, sent = asyncio.Event(), 0

        async def load() -> None:
            nonlocal sent
            while not stop.is_set():
                await producer.send("orders", b"x")
                sent += 1

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load())
            for step in ("both are trusted", "the new one has signed all", "only the new one is trusted"):
                if step == "both are trusted":
                    ca.write_bytes(ca.read_bytes() + new.pair.certificate)
                elif step == "the new one has signed all":
                    write_certificates(fleet, new)
                else:
                    ca.write_bytes(new.pair.certificate)
                for _ in range(2):  # two nodes are reached by new connections, the third one by those that it had
                    node = await follower(admin)
                    await fleet.stop(node)
                    await fleet.start(node)
                await admin.transfer_leadership(await follower(admin))
            before = sent

            async def goes_on() -> bool:
                return sent > before + 10

            await eventually(goes_on, "sends go on")
            stop.set()

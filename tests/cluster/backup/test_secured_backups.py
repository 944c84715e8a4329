"""Backups of a cluster with TLS and authentication: which rights they need, and who may do what after a restore."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.cli.metrics_file import MetricsFile
from ledger.errors import AuthenticationError, UnavailableError
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.backup.backed_up import SHARDS
from tests.cluster.cli.command import run
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.secured import PASSWORD, tls_fleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest_asyncio.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Fleet]:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    fleet = tls_fleet(
        tmp_path / "old",
        3,
        shards=SHARDS,
        authentication=True,
        first_administrator_password_file=password,
    )
    await fleet.start()

    async def begun() -> bool:
        try:
            async with AsyncAdmin(fleet.bootstrap, ca=fleet.directory / "ca.pem", user="admin", password=PASSWORD):
                return True
        except UnavailableError:
            return False

    await eventually(begun, "the nodes serve the first administrator")
    yield fleet
    await fleet.close()


async def test_a_backup_needs_two_rights(secured: Fleet, make_fleet: MakeFleet, tmp_path: Path) -> None:
    ca, password, target = secured.directory / "ca.pem", tmp_path / "password", tmp_path / "backups"
    options = ["--bootstrap", ",".join(secured.bootstrap), "--ca", str(ca), "--user", "keeper"]
    options += ["--password-file", str(password), "--metrics-file", str(tmp_path / "backup.prom")]

    async def create(status: int = 0) -> str:
        arguments = ("backup", "create", str(target), *options)
        return (await asyncio.to_thread(lambda: run(*arguments, status=status))).stderr.decode()

    async with AsyncAdmin(secured.bootstrap, ca=ca, user="admin", password=PASSWORD) as admin:
        await admin.create_topic("orders", SHARDS)
        await admin.add_user("keeper", PASSWORD)
        assert "`administer` and `read-log`" in await create(1)
        await admin.grant("keeper", "administer", "cluster")
        assert "no right to read-log" in await create(1)
        await admin.grant("keeper", "read-log", "cluster")
        async with AsyncProducer(secured.bootstrap, ca=ca, user="admin", password=PASSWORD) as producer:
            await producer.send("orders", b"a secret order", key="k")
        assert "of 3 shards" in await create()
        metrics = MetricsFile(tmp_path / "backup.prom", {"target": str(target)}).earlier()
        assert (metrics["ledgermq_backup_failures_total"], metrics["ledgermq_backup_last_run_succeeded"]) == (2, 1)
        assert [hold.name for hold in await admin.log_holds()] == []
    new = make_fleet(1, cluster="new", authentication=True)
    restore = ["restore", str(target), str(new.directory), "--cluster", "new", "--node", f"1={new.address(1)}"]
    await asyncio.to_thread(lambda: run(*restore))
    new.override(1, cluster_secret_file=new.directory / "cluster.secret")
    await new.start()

    async def leads() -> bool:
        try:
            async with AsyncAdmin(new.bootstrap, user="admin", password=PASSWORD) as admin:
                return len(await admin.list_topics()) > 0
        except UnavailableError:
            return False

    await eventually(leads, "the restored node serves its users")
    async with AsyncAdmin(new.bootstrap, user="admin", password=PASSWORD) as admin:
        assert {user.name for user in await admin.list_users()} == {"admin", "keeper"}
        assert len(await admin.query_messages("orders", "k")) == 1
    with pytest.raises(AuthenticationError):
        async with AsyncAdmin(new.bootstrap, user="admin", password="another password") as admin:
            await admin.list_users()

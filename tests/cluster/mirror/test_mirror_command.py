"""`ledgermq mirror` as a person runs it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.errors import LedgerError
from ledgermq import AsyncAdmin, AsyncProducer, TopicQueue
from tests.cluster.cli.command import run, start
from tests.cluster.fleet import Fleet
from tests.cluster.mirror.pair import Pair, started_pair, values
from tests.cluster.secured import PASSWORD, write_secret
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

SOURCE_RIGHTS = (
    *(("describe", "topic:orders*"), ("subscribe", "topic:orders*")),
    *(("describe", "group:ledgermq-mirror*"), ("subscribe", "group:ledgermq-mirror*")),
    *(("describe", "group:ledgermq-copies*"), ("describe", "group:billing")),
)
TARGET_RIGHTS = (
    *((action, "topic:orders*") for action in ("describe", "subscribe", "publish", "create", "alter")),
    *(("subscribe", "group:ledgermq-copies*"), ("describe", "group:billing"), ("alter", "group:billing")),
)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with started_pair(tmp_path) as pair:
        await pair.source.create_topic("orders", queues=2)
        yield pair


async def send(fleet: Fleet, count: int, **security: Any) -> None:
    async with AsyncProducer(bootstrap_servers=fleet.bootstrap, **security) as producer:
        await producer.send_many("orders", [b"%d" % n for n in range(count)])


async def test_once_with_an_account(pair: Pair, tmp_path: Path) -> None:
    await send(pair.source, 100)
    metrics = ("--metrics-file", str(tmp_path / "mirror.prom"))
    given = ("mirror", "--from", pair.source.address(1), "--to", pair.target.address(1), "--topic", "ord*")
    done = await asyncio.to_thread(run, *given, "--once", "--rate-mb", "10", "--format", "json", *metrics)
    told = json.loads(done.stdout)
    assert (told["copied"], told["topics"], told["lag"], told["skipped"]) == (100, {"orders": 100}, 0, 0)
    assert b"100 messages copied" in done.stderr
    assert "ledgermq_mirror_messages_total{" in (metrics_text := (tmp_path / "mirror.prom").read_text())
    assert f'source="{pair.source.address(1)}"' in metrics_text
    assert await values(pair.target, "orders") == await values(pair.source, "orders")


async def test_ctrl_c_ends_it_with_an_account(pair: Pair) -> None:
    await send(pair.source, 100)
    given = ("mirror", "--from", pair.source.address(1), "--to", pair.target.address(1), "--topic", "orders")
    process = await asyncio.to_thread(start, *given)

    async def is_copied() -> bool:
        async with AsyncAdmin(pair.target.bootstrap) as admin:
            try:
                return sum(each.end_offset for each in (await admin.describe_topic("orders")).offsets) == 100
            except LedgerError:
                return False

    try:
        await eventually(is_copied, "the messages are copied", deadline_s=40)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(asyncio.to_thread(process.communicate), 20)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert b"100 messages copied" in err
    assert b"Traceback" not in err


async def test_what_is_wrong_is_told(pair: Pair) -> None:
    source, target = pair.source.address(1), pair.target.address(1)
    for arguments, status, sentence in [
        (("--from", source, "--to", target, "--topic", "nope"), 1, b"The source has no topic 'nope'"),
        (("--from", source, "--to", source, "--topic", "orders"), 1, b"the same cluster"),
        (("--from", "paris", "--to", target, "--topic", "orders"), 2, b"There is no profile 'paris'"),
        (("--from", source, "--to", target), 2, b"--topic"),
        (("--from", source, "--to", target, "--topic", "orders", "--no-create"), 1, b"The target has no topic"),
    ]:
        done = await asyncio.to_thread(run, "mirror", *arguments, "--once", status=status)
        assert sentence in done.stderr, done.stderr


async def secured(directory: Path, name: str) -> Fleet:
    """Start a node with users."""
    secret = write_secret(directory / "secret")
    password = write_secret(directory / "password", PASSWORD)
    fleet = Fleet(
        directory,
        1,
        cluster=name,
        authentication=True,
        cluster_secret_file=secret,
        first_administrator_password_file=password,
    )
    await fleet.start()

    async def begun() -> bool:
        try:
            async with AsyncAdmin(fleet.bootstrap, user="admin", password=PASSWORD) as admin:
                return bool(await admin.list_users())
        except LedgerError:
            return False

    await eventually(begun, "the cluster has its first administrator")
    return fleet


async def test_profiles_with_the_rights_of_the_documents(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        for name in ("here", "there"):
            await asyncio.to_thread((tmp_path / name).mkdir)
        source, target = [await secured(tmp_path / name, name) for name in ("here", "there")]
        for fleet in (source, target):
            stack.push_async_callback(fleet.close)
        profiles = tmp_path / "profiles.toml"
        lines = []
        for name, fleet, rights in (("here", source, SOURCE_RIGHTS), ("there", target, TARGET_RIGHTS)):
            async with AsyncAdmin(fleet.bootstrap, user="admin", password=PASSWORD) as admin:
                await admin.add_user("mirror", PASSWORD)
                for action, resource in rights:
                    await admin.grant("mirror", action, resource)
                if fleet is source:
                    await admin.create_topic("orders", 1)
                    await admin.create_topic("secret", 1)
            lines.append(
                f'[profiles.{name}]\nservers = "{fleet.address(1)}"\nuser = "mirror"\npassword = "{PASSWORD}"\n'
            )
        profiles.write_text("\n".join(lines))
        profiles.chmod(0o600)
        await send(source, 10, user="admin", password=PASSWORD)
        async with AsyncAdmin(source.bootstrap, user="admin", password=PASSWORD) as admin:
            await ConsumerGroupsAdmin(admin._client).set_offsets("billing", {TopicQueue("orders", 0): 4})
        given = ("mirror", "--from", "here", "--to", "there", "--topic", "*", "--group", "*", "--once")
        done = await asyncio.to_thread(
            run, *given, "--format", "json", environment={"LEDGERMQ_PROFILE_FILE": str(profiles)}
        )
        told = json.loads(done.stdout)
        assert (told["copied"], told["topics"], told["groups"]) == (10, {"orders": 10}, {"billing": 1}), done.stderr

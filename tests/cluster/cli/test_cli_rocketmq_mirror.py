"""`ledgermq rocketmq mirror` as a person runs it, against the RocketMQ port of another cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledgermq import AsyncAdmin
from tests.cluster.cli.command import run, start
from tests.cluster.fleet import Fleet
from tests.cluster.node.test_node_rocketmq_access import client_of, fleet, secret_of
from tests.cluster.ports import free_base_port
from tests.cluster.rocketmq_stubs import RawClient, signed
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

# The node with users of these tests.
secured = fleet


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path / "source", 1)
    fleet.override(1, rocketmq=f"127.0.0.1:{free_base_port(1)}")
    fleet.directory.mkdir()
    try:
        await fleet.start()
        await fleet.leader()
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.create_topic("orders", 3, type="fifo")
            await admin.create_topic("events", 2)
        yield fleet
    finally:
        await fleet.close()


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path / "target", 1, cluster="other")
    fleet.directory.mkdir()
    try:
        await fleet.start()
        await fleet.leader()
        yield fleet
    finally:
        await fleet.close()


async def mirror(target: Fleet, address: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(
        run, "rocketmq", "mirror", "--from", address, *arguments, "--bootstrap", target.address(1), status=status
    )


async def test_topics_are_created_and_copied(source: Fleet, target: Fleet) -> None:
    async with RawClient(source.settings(1).rocketmq) as client:
        for number in range(10):
            await client.sent("orders", b"%d" % number, message_group="group")
            await client.sent("events", b"%d" % number)
    done = await mirror(
        target,
        source.settings(1).rocketmq,
        *("orders", "events=happenings", "--create-topics", "--until-empty", "1", "--format", "json"),
    )
    told = json.loads(done.stdout)
    assert (told["copied"], told["topics"]) == (20, {"events": 10, "orders": 10})
    assert (told["repeated"], told["left_out"], told["unfinished"]) == (0, 0, 0)
    assert b"20 messages copied" in done.stderr
    async with AsyncAdmin(target.bootstrap) as admin:
        orders, happenings = await admin.describe_topic("orders"), await admin.describe_topic("happenings")
    assert (orders.queues, orders.type) == (3, "fifo")
    assert (happenings.queues, happenings.type) == (2, "mixed")
    assert sum(each.end_offset for each in orders.offsets) == 10


async def test_ctrl_c_ends_it_with_an_account(source: Fleet, target: Fleet) -> None:
    await target.create_topic("events", queues=2)
    process = await asyncio.to_thread(
        start,
        *("rocketmq", "mirror", "events", "--from", source.settings(1).rocketmq, "--format", "json"),
        *("--bootstrap", target.address(1)),
    )

    async def is_copied() -> bool:
        async with AsyncAdmin(target.bootstrap) as admin:
            return any(each.end_offset for each in (await admin.describe_topic("events")).offsets)

    try:
        async with RawClient(source.settings(1).rocketmq) as client:
            await client.sent("events")
        await eventually(is_copied, "the message was copied", deadline_s=40)
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(asyncio.to_thread(process.communicate), 20)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert json.loads(out)["copied"] == 1
    assert b"Traceback" not in err


async def test_what_is_wrong_at_the_start_is_told(source: Fleet, target: Fleet) -> None:
    address = source.settings(1).rocketmq
    for source_address, arguments, sentence in [
        (address, ["orders"], b"the cluster has no topic 'orders'"),
        (address, ["nope", "--create-topics"], b"TOPIC_NOT_FOUND"),
        (address, ["orders", "--create-topics", "--group", "a b"], b"ILLEGAL_CONSUMER_GROUP"),
        (source.address(1), ["orders"], b"does not serve RocketMQ 5's gRPC protocol"),
        (f"127.0.0.1:{free_base_port(1)}", ["orders"], b"did not answer"),
    ]:
        done = await mirror(target, source_address, *arguments, status=1)
        assert sentence in done.stderr, done.stderr
    for arguments in (["orders=a", "orders=b"], ["orders="], ["orders", "--from-access-key", "alice"]):
        await mirror(target, address, *arguments, status=2)
    await mirror(target, "127.0.0.1", "orders", status=2)
    async with AsyncAdmin(target.bootstrap) as admin:
        await admin.create_topic("delayed", 1, type="delay")
    assert b"takes no copies" in (await mirror(target, address, "events=delayed", status=1)).stderr


async def test_a_mirror_signs_and_uses_tls(secured: Fleet, target: Fleet, tmp_path: Path) -> None:
    await target.create_topic("orders", queues=1)
    secret = await secret_of(
        secured,
        "alice",
        *(("publish", "topic:orders"), ("subscribe", "topic:orders")),
        *(("subscribe", "group:ledgermq-mirror"), ("alter", "group:ledgermq-mirror")),
    )
    async with client_of(secured, signed("alice", secret)) as client:
        await client.sent("orders")
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"{secret}\n")
    wrong.write_text("wrong\n")
    given = ["orders", "--until-empty", "1", "--from-ca", str(secured.directory / "ca.pem")]
    address = secured.settings(1).rocketmq_tls
    refused = await mirror(
        target, address, *given, "--from-access-key", "alice", "--from-secret-file", str(wrong), status=1
    )
    assert b"UNAUTHORIZED" in refused.stderr
    done = await mirror(target, address, *given, "--from-access-key", "alice", "--from-secret-file", str(right))
    assert b"1 message copied" in done.stderr

"""RocketMQ clients on a node with TLS and authentication: signatures and rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ledger.errors import LedgerError
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledgermq import AsyncAdmin
from tests.cluster.fleet import Fleet
from tests.cluster.ports import free_base_port
from tests.cluster.rocketmq_stubs import RawClient, producer_settings, resource, signed
from tests.cluster.secured import PASSWORD, tls_fleet, write_secret
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    (tmp_path / "password").write_text(PASSWORD)
    base = free_base_port(1)
    fleet = tls_fleet(
        tmp_path,
        1,
        authentication=True,
        first_administrator_password_file=tmp_path / "password",
        secrets_key_file=write_secret(tmp_path / "secrets.key"),
        rocketmq=f"127.0.0.1:{base}",
        rocketmq_tls=f"127.0.0.1:{base + 1}",
        rocketmq_utc_offsets_hours=(0, 5.5),
    )

    async def begun() -> bool:
        try:
            async with admin_of(fleet) as admin:
                await admin.create_topic("orders", 1, exist_ok=True)
                return True
        except LedgerError:
            return False

    try:
        await fleet.start()
        await eventually(begun, "the cluster has its first administrator")
        yield fleet
    finally:
        await fleet.close()


def admin_of(fleet: Fleet) -> AsyncAdmin:
    return AsyncAdmin(fleet.bootstrap, ca=fleet.directory / "ca.pem", user="admin", password=PASSWORD)


async def secret_of(fleet: Fleet, name: str, *rules: tuple[str, str]) -> str:
    """Add a user with rights, and return its RocketMQ secret."""
    async with admin_of(fleet) as admin:
        await admin.add_user(name, PASSWORD)
        for action, where in rules:
            await admin.grant(name, action, where)
        return (await admin.make_rocketmq_secret(name)).secret


def client_of(fleet: Fleet, headers: list[tuple[str, str]], *, tls: bool = True, **given: Any) -> RawClient:
    credentials = grpc.ssl_channel_credentials((fleet.directory / "ca.pem").read_bytes()) if tls else None
    settings = fleet.settings(1)
    return RawClient(
        settings.rocketmq_tls if tls else settings.rocketmq, headers=headers, credentials=credentials, **given
    )


async def route_code(client: RawClient) -> str:
    answer = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
    return pb.Code.Name(answer.status.code)


async def test_a_client_with_the_secret_of_a_user_has_its_rights(fleet: Fleet) -> None:
    secret = await secret_of(fleet, "alice", ("publish", "topic:orders"), ("subscribe", "topic:orders"))
    async with client_of(fleet, signed("alice", secret)) as client:
        route = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
        assert route.status.code == pb.OK
        (address,) = route.message_queues[0].broker.endpoints.addresses
        assert f"{address.host}:{address.port}" == fleet.settings(1).rocketmq_tls
        await client.sent("orders", b"hello")
        answers = await client.receive("billing", "orders")
        assert answers[0].status.code == pb.FORBIDDEN  # no right on the group
        async with admin_of(fleet) as admin:
            await admin.grant("alice", "subscribe", "group:billing")
            await admin.create_consumer_group("billing")
        (message,) = await client.some("billing", "orders", 1)
        assert (await client.ack("billing", "orders", message)).status.code == pb.OK
        async with admin_of(fleet) as admin:
            await admin.remove_user("alice")
        assert (await client.send(client.message("orders"))).status.code in (pb.UNAUTHORIZED, pb.FORBIDDEN)


async def test_a_client_without_rights_on_a_topic_is_refused(fleet: Fleet) -> None:
    secret = await secret_of(fleet, "bob", ("subscribe", "topic:other"))
    async with client_of(fleet, signed("bob", secret)) as client:
        assert (await client.send(client.message("orders"))).status.code in (pb.FORBIDDEN, pb.TOPIC_NOT_FOUND)
        assert await route_code(client) in ("FORBIDDEN", "TOPIC_NOT_FOUND")


async def test_who_does_not_prove_itself_is_refused(fleet: Fleet) -> None:
    secret = await secret_of(fleet, "alice", ("publish", "topic:orders"))
    old = (datetime.now(UTC) - timedelta(minutes=6)).strftime("%Y%m%dT%H%M%SZ")
    for headers, tls in [
        ([], True),
        (signed("", secret), True),
        (signed("alice", secret + "x"), True),
        (signed("nobody", secret), True),
        (signed("alice", secret, old), True),
        (signed("alice", secret), False),
    ]:
        async with client_of(fleet, headers, tls=tls) as client:
            assert await route_code(client) == "UNAUTHORIZED", headers
            assert (await client.send(client.message("orders"))).status.code == pb.UNAUTHORIZED
            assert (await client.receive("billing", "orders"))[0].status.code == pb.UNAUTHORIZED
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                # A write could meet the end of the stream, and gRPC's client then tells INTERNAL instead of the status.
                async with client.telemetry() as stream:
                    await stream.read()
            assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_telemetry_stream_of_a_removed_user_ends(fleet: Fleet) -> None:
    secret = await secret_of(fleet, "alice", ("publish", "topic:orders"))
    async with (
        client_of(fleet, signed("alice", secret)) as client,
        client.telemetry(producer_settings("orders")) as open_,
    ):
        async with admin_of(fleet) as admin:
            await admin.remove_user("alice")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await asyncio.wait_for(open_.read(), 20)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "removed" in (failed.value.details() or "")


async def test_the_dates_of_all_clients_are_read(fleet: Fleet) -> None:
    secret = await secret_of(fleet, "alice", ("publish", "topic:orders"))
    now = datetime.now(UTC)
    local = (now + timedelta(hours=5.5)).strftime("%Y%m%dT%H%M%SZ")
    wrong = (now + timedelta(hours=5)).strftime("%Y%m%dT%H%M%SZ")
    for date, expected in [(local, "OK"), (now.isoformat(), "OK"), (wrong, "UNAUTHORIZED"), ("2026", "UNAUTHORIZED")]:
        async with client_of(fleet, signed("alice", secret, date)) as client:
            assert await route_code(client) == expected, date

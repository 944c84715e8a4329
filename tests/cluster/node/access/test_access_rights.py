"""What a user may do: rights by topic, also on open streams and waiting fetches, and what refusals tell."""

from __future__ import annotations

import asyncio

import pytest
from grpc import aio

from ledger.client.admin.admin import AsyncAdmin
from ledger.errors import PermissionDeniedError, from_wire
from ledger.v1 import broker_pb2, error_pb2, security_pb2
from tests.cluster.fleet import sample_batch
from tests.cluster.node.access.site import PASSWORD, Site

pytestmark = pytest.mark.real


async def test_rights_by_topic(site: Site) -> None:
    async with site.client("admin") as admin:
        orders, payments = await admin.create_topic("orders-eu"), await admin.create_topic("payments")
        await admin.add_user("alice", "publish topic:orders-*", "subscribe topic:payments")
        async with site.client("alice") as alice:
            written, refused = await alice.produce(sample_batch(orders), sample_batch(payments))
            assert written is None
            assert isinstance(refused, PermissionDeniedError)
            assert "no right to publish topic:payments" in str(refused)
            fetched = await alice.fetch(orders, payments)
            assert isinstance(fetched[orders], PermissionDeniedError)
            assert fetched[payments] == 0
            assert await alice.topics() == {"orders-eu", "payments"}


async def test_a_user_who_may_not_describe_the_cluster_is_told_so(site: Site) -> None:
    async with site.client("admin") as admin:
        await admin.add_user("alice", "publish topic:orders")
    async with AsyncAdmin(site.fleet.address(1), user="alice", password=PASSWORD) as alice:
        with pytest.raises(PermissionDeniedError, match="no right to describe cluster"):
            await alice.cluster()


async def test_an_open_stream_feels_a_revoked_right(site: Site) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "publish topic:orders")
        async with site.client("alice") as alice:
            stream = alice.node.Produce(metadata=alice.metadata, timeout=10)
            await stream.write(broker_pb2.ProduceRequest(batches=[sample_batch(orders)]))
            assert not (await stream.read()).results[0].HasField("error")
            await admin.revoke("alice", "publish topic:orders")
            await stream.write(broker_pb2.ProduceRequest(batches=[sample_batch(orders, first_sequence=2)]))
            error = from_wire((await stream.read()).results[0].error)
            assert isinstance(error, PermissionDeniedError)
            await stream.done_writing()


@pytest.mark.parametrize("end", ["revoked", "removed", "new password"])
async def test_a_fetch_that_waits_feels_a_revoked_right(site: Site, end: str) -> None:
    async with site.client("admin") as admin:
        orders = await admin.create_topic("orders")
        await admin.add_user("alice", "subscribe topic:orders")
        async with site.client("alice") as alice:
            request = broker_pb2.FetchRequest(
                queues=[broker_pb2.QueueFetch(topic_id=orders)], max_bytes=1 << 20, max_wait_ms=20_000
            )
            waiting = asyncio.ensure_future(alice.node.Fetch(request, metadata=alice.metadata, timeout=30))
            await alice.fetch(orders)  # a later call on the same connection has an answer, so the first one waits
            match end:
                case "revoked":
                    await admin.revoke("alice", "subscribe topic:orders")
                case "removed":
                    await admin.call(admin.security.RemoveUser, security_pb2.RemoveUserRequest(name="alice"))
                case _:
                    await admin.call(admin.security.RotateUser, security_pb2.RotateUserRequest(name="alice"))
            assert await admin.produce(sample_batch(orders)) == [None]
            found = (await waiting).queues[0]
            assert not found.batches
            assert found.next_offset == 0
            assert (found.error.code == error_pb2.PERMISSION_DENIED) == (end == "revoked")


async def test_a_name_that_a_caller_chose_stays_short_and_on_one_line(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, a user without rights wrote lines into the audit log that looked like lines of the node."""
    async with site.client("admin") as admin:
        await admin.add_user("mallory")
        async with site.client("mallory") as mallory:
            with caplog.at_level("INFO"), pytest.raises(aio.AioRpcError) as refused:
                await mallory.create_topic("x\nadmin from ipv4:10.0.0.1:1: GrantRules: done" + "y" * 100_000)
            assert len(str(refused.value.details())) < 1_000
            assert await site.http("/x%0aforged") == 401
    assert not any("\n" in record.getMessage() for record in caplog.records)

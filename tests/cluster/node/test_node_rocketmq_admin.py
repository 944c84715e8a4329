"""RocketMQ's service Admin at a node: what it answers, and how it refuses the rest."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from ledger.rocketmq.v2 import admin_pb2
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledgermq import AsyncAdmin
from tests.cluster.fleet import Fleet
from tests.cluster.rocketmq_stubs import RawClient, code, resource, rocketmq_fleet

pytestmark = pytest.mark.real


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with rocketmq_fleet(tmp_path) as fleet:
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.create_topic("payments", 1, type="fifo")
        yield fleet


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[RawClient]:
    async with RawClient(fleet.settings(1).rocketmq) as client:
        yield client


async def test_the_type_of_a_topic_is_told(client: RawClient) -> None:
    for topic, kind, word in [("payments", pb.FIFO, "fifo"), ("orders", pb.MESSAGE_TYPE_UNSPECIFIED, "mixed")]:
        answer = await client.administer(
            "DescribeTopicStatus", admin_pb2.DescribeTopicStatusRequest(topic=resource(topic))
        )
        assert (code(answer), answer.topic_message_type, answer.description) == ("OK", kind, word)
        assert abs(answer.create_timestamp.seconds - time.time()) < 60
    answer = await client.administer("DescribeTopicStatus", admin_pb2.DescribeTopicStatusRequest(topic=resource("no")))
    assert code(answer) == "TOPIC_NOT_FOUND"


async def test_what_a_group_has_not_consumed_is_told(client: RawClient) -> None:
    for number in range(5):
        await client.sent("orders", b"%d" % number, message_group="one")
    (first, *_) = await client.some("billing", "orders", 1, batch=1)
    request = admin_pb2.DescribeGroupAccumulationRequest(group=resource("billing"))
    answer = await client.administer("DescribeGroupAccumulation", request)
    found = answer.accumulation
    assert (code(answer), found.inflight_messages, found.ready_messages, found.accumulation) == ("OK", 1, 4, 5)
    assert dict(answer.topic_accumulation).keys() == {"orders"}
    await client.ack("billing", "orders", first)
    request.topics.add(name="orders")
    answer = await client.administer("DescribeGroupAccumulation", request)
    assert answer.topic_accumulation["orders"].accumulation == 4
    request.topics[0].name = "payments"
    assert (await client.administer("DescribeGroupAccumulation", request)).accumulation.accumulation == 0
    request.group.name = "nobody"
    assert code(await client.administer("DescribeGroupAccumulation", request)) == "CONSUMER_GROUP_NOT_FOUND"


async def test_a_group_is_set_back(client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    await client.ack("billing", "orders", message)
    request = admin_pb2.ResetGroupOffsetRequest(group=resource("billing"), topic=resource("orders"))
    assert code(await client.administer("ResetGroupOffset", request)) == "BAD_REQUEST"
    request.reset_timestamp.seconds = 1 << 60
    assert code(await client.administer("ResetGroupOffset", request)) == "BAD_REQUEST"
    request.reset_timestamp.seconds = 0
    assert code(await client.administer("ResetGroupOffset", request)) == "OK"
    (again,) = await client.some("billing", "orders", 1)
    assert again.system_properties.message_id == message.system_properties.message_id


async def test_other_methods_are_refused(client: RawClient) -> None:
    methods = {
        "ListSubscription": admin_pb2.ListSubscriptionRequest,
        "DescribeSubscription": admin_pb2.DescribeSubscriptionRequest,
        "DeleteSubscription": admin_pb2.DeleteSubscriptionRequest,
        "ListConsumerConnection": admin_pb2.ListConsumerConnectionRequest,
        "QueryMessage": admin_pb2.ListMessageRequest,
        "PrintThreadStackTrace": admin_pb2.PrintThreadStackTraceRequest,
        "VerifyMessage": admin_pb2.VerifyMessageRequest,
        "AdminSendMessage": admin_pb2.AdminSendMessageRequest,
        "GetConsumerRunningInfo": admin_pb2.GetConsumerRunningInfoRequest,
        "GetTopicRoute": admin_pb2.GetTopicRouteRequest,
        "QueryTimeSpan": admin_pb2.QueryTimeSpanRequest,
        "GetProxyRuntimeStats": admin_pb2.GetProxyRuntimeStatsRequest,
    }
    for method, request in methods.items():
        assert code(await client.administer(method, request())) == "NOT_IMPLEMENTED", method
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await client.administer("ChangeLogLevel", admin_pb2.ChangeLogLevelRequest())
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED

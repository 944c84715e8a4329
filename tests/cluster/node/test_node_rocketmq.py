"""The front for RocketMQ's clients, called as no client calls it: codes, limits and handles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ledger.broker.access.callers import ANYBODY
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet
from tests.cluster.rocketmq_stubs import RawClient, code, consumer_settings, producer_settings, resource, rocketmq_fleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """One node with the topic `orders`."""
    async with rocketmq_fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[RawClient]:
    async with RawClient(fleet.settings(1).rocketmq) as client:
        yield client


async def test_a_route_names_the_queues_and_the_node(fleet: Fleet, client: RawClient) -> None:
    answer = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
    assert code(answer) == "OK"
    assert [queue.id for queue in answer.message_queues] == [0, 1]
    host, port = fleet.settings(1).rocketmq.split(":")
    for queue in answer.message_queues:
        assert (queue.permission, queue.broker.name, queue.broker.id) == (pb.READ_WRITE, "test-0", 0)
        assert queue.broker.endpoints == pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host=host, port=int(port))])


@pytest.mark.parametrize(("name", "expected"), [("nope", "TOPIC_NOT_FOUND"), ("a b", "ILLEGAL_TOPIC")])
async def test_a_route_of_no_topic_is_refused(client: RawClient, name: str, expected: str) -> None:
    assert code(await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource(name)))) == expected


async def test_a_missing_topic_is_told_also_with_the_words_of_apaches_server(client: RawClient) -> None:
    answer = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("nope")))
    assert "CODE: 17  DESC: No topic route info in name server for the topic: nope" in answer.status.message


async def test_a_client_without_an_id_is_refused(fleet: Fleet) -> None:
    async with RawClient(fleet.settings(1).rocketmq, client_id="") as client:
        answer = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
        assert code(answer) == "CLIENT_ID_REQUIRED"
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            # A write could meet the end of the stream, and gRPC's client then tells INTERNAL instead of the status.
            async with client.telemetry() as stream:
                await stream.read()
        assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_settings_of_a_producer_are_answered(client: RawClient) -> None:
    async with client.telemetry(producer_settings("orders")) as stream:
        settings = stream.settings
    assert settings.publishing.max_body_size == 64 << 10
    assert settings.publishing.validate_message_type
    assert settings.backoff_policy.max_attempts == 3
    assert settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert not settings.metric.on


@pytest.mark.parametrize(("language", "strategy"), [("PYTHON", "customized_backoff"), ("HTTP", "exponential_backoff")])
async def test_the_settings_of_a_consumer_are_answered(fleet: Fleet, language: str, strategy: str) -> None:
    async with (
        RawClient(fleet.settings(1).rocketmq, language=language) as client,
        client.telemetry(consumer_settings("billing", "orders")) as stream,
    ):
        settings = stream.settings
    assert settings.subscription.group.name == "billing"
    assert (settings.subscription.receive_batch_size, settings.subscription.long_polling_timeout.seconds) == (32, 20)
    assert not settings.subscription.fifo
    assert settings.backoff_policy.max_attempts == 17
    assert settings.backoff_policy.WhichOneof("strategy") == strategy


@pytest.mark.parametrize(
    "settings", [pb.Settings(), consumer_settings("bad group", "orders"), producer_settings("a b")], ids=str
)
async def test_settings_of_nobody_end_the_stream(client: RawClient, settings: pb.Settings) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        async with client.telemetry(settings):
            pass
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_heartbeat_is_answered(client: RawClient) -> None:
    answer = await client.call("Heartbeat", service_pb2.HeartbeatRequest(client_type=pb.PRODUCER))
    assert code(answer) == "OK"
    assert code(await client.call("Heartbeat", service_pb2.HeartbeatRequest())) == "UNRECOGNIZED_CLIENT_TYPE"


async def test_a_message_of_a_rocketmq_client_is_one_of_the_cluster(fleet: Fleet, client: RawClient) -> None:
    entry = await client.sent("orders", b"hello", tag="paid", keys=["k1"], properties={"colour": "red"})
    assert entry.transaction_id == entry.message_id
    async with AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap) as consumer:
        message = await anext(aiter(consumer))
    assert (message.value, message.tag, message.look_up_keys) == (b"hello", "paid", (b"k1",))
    assert dict(message.headers)["colour"] == b"red"
    assert dict(message.headers)["%MESSAGE_ID"] == entry.message_id.encode()


async def test_a_message_of_a_native_client_is_received(fleet: Fleet, client: RawClient) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("orders", b"hello", key="customer 7", tag="paid", headers={"colour": "red"})
    (message,) = await client.some("billing", "orders", 1)
    system = message.system_properties
    assert (message.body, dict(message.user_properties)["colour"]) == (b"hello", "red")
    assert (system.tag, system.message_group, system.queue_id) == ("paid", "customer 7", sent.queue)
    assert system.message_id == f"orders:{sent.queue}:{sent.offset}"


async def test_a_native_message_with_a_timestamp_of_no_date_is_received(fleet: Fleet, client: RawClient) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send("orders", b"strange", timestamp_ms=1 << 61)
    (message,) = await client.some("billing", "orders", 1)
    system = message.system_properties
    assert (message.body, system.delivery_attempt, system.born_timestamp.ToDatetime().year) == (b"strange", 1, 9999)


async def test_entries_with_different_results_are_told_apart(client: RawClient) -> None:
    sent = [client.message("orders", body) for body in (b"1", b"2", b"3")]
    answer = await client.send(*sent)
    assert (code(answer), len(answer.entries)) == ("OK", 3)
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]


async def test_requests_without_messages_or_with_two_topics_are_refused(fleet: Fleet, client: RawClient) -> None:
    assert code(await client.send()) == "MESSAGE_CORRUPTED"
    assert code(await client.send(client.message("orders"), client.message("other"))) == "MESSAGE_CORRUPTED"
    assert code(await client.send(client.message("nope"))) == "TOPIC_NOT_FOUND"
    assert code(await client.send(client.message("%DLQ%billing"))) in ("ILLEGAL_TOPIC", "TOPIC_NOT_FOUND")


async def test_an_acknowledged_message_does_not_come_again(fleet: Fleet, client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    assert message.system_properties.delivery_attempt == 1
    assert code(await client.ack("billing", "orders", message)) == "OK"
    # A client that has heard no answer asks again.
    assert code(await client.ack("billing", "orders", message)) == "OK"
    async with AsyncAdmin(fleet.bootstrap) as admin:
        described = await admin.describe_consumer_group("billing")
    assert described.mode == "shared"
    assert all(queue.offset == queue.end_offset for queue in described.queues)


async def test_a_changed_lease_ends_at_its_new_time_and_its_old_handle_ends(client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    old = message.system_properties.receipt_handle
    begun = time.monotonic()
    changed = await client.invisible("billing", "orders", old, 2)
    assert code(changed) == "OK"
    assert changed.receipt_handle != old
    (again,) = await client.some("billing", "orders", 1)
    assert time.monotonic() - begun > 1.5
    assert again.system_properties.delivery_attempt == 2
    answer = await client.ack("billing", "orders", changed.receipt_handle)
    assert code(answer) == "INVALID_RECEIPT_HANDLE"
    assert code(await client.ack("billing", "orders", again)) == "OK"


async def test_a_simple_consumer_is_too_late_after_the_lease(client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    handle = (await client.invisible("billing", "orders", message.system_properties.receipt_handle, 1)).receipt_handle
    await asyncio.sleep(1.5)
    assert code(await client.ack("billing", "orders", handle)) == "INVALID_RECEIPT_HANDLE"
    assert code(await client.invisible("billing", "orders", handle, 30)) == "INVALID_RECEIPT_HANDLE"
    (again,) = await client.some("billing", "orders", 1)
    assert code(await client.ack("billing", "orders", again)) == "OK"


async def test_a_push_consumers_acknowledgement_counts_until_another_receive_gets_the_message(
    client: RawClient,
) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1, invisible_s=None)
    changed = await client.invisible("billing", "orders", message.system_properties.receipt_handle, 1)
    await asyncio.sleep(1.5)
    assert code(await client.ack("billing", "orders", changed.receipt_handle)) == "OK"
    assert await client.messages("billing", "orders") == []


async def test_of_two_handles_of_one_message_the_newer_counts(client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    changed = await client.invisible("billing", "orders", message.system_properties.receipt_handle, 30)
    answer = await client.ack("billing", "orders", message, changed.receipt_handle)
    assert code(answer) == "MULTIPLE_RESULTS"
    assert [pb.Code.Name(entry.status.code) for entry in answer.entries] == ["INVALID_RECEIPT_HANDLE", "OK"]


async def test_strange_handles_are_refused(client: RawClient) -> None:
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    handle = message.system_properties.receipt_handle
    for group, text in [("billing", ""), ("billing", "garbage"), ("other", handle), ("billing", handle[:-1] + "_")]:
        assert code(await client.ack(group, "orders", text)) == "INVALID_RECEIPT_HANDLE"
        assert code(await client.invisible(group, "orders", text, 10)) == "INVALID_RECEIPT_HANDLE"
    assert code(await client.ack("billing", "orders")) == "BAD_REQUEST"
    assert code(await client.invisible("billing", "orders", handle, 13 * 3600)) == "ILLEGAL_INVISIBLE_TIME"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"invisible_s": 1}, "ILLEGAL_INVISIBLE_TIME"),
        ({"invisible_s": 13 * 3600}, "ILLEGAL_INVISIBLE_TIME"),
        ({"batch": 0}, "BAD_REQUEST"),
        ({"timeout_s": 3}, "ILLEGAL_POLLING_TIME"),
        ({"expression": pb.FilterExpression(type=pb.TAG, expression="a|b")}, "ILLEGAL_FILTER_EXPRESSION"),
    ],
    ids=str,
)
async def test_a_receive_against_the_rules_is_refused(
    client: RawClient, given: dict[str, object], expected: str
) -> None:
    answers = await client.receive("billing", "orders", **given)  # type: ignore[arg-type]
    assert pb.Code.Name(answers[0].status.code) == expected
    assert answers[-1].WhichOneof("content") == "delivery_timestamp"


@pytest.mark.parametrize(("invisible_s", "word"), [(9.999, "small"), (43_200.001, "large")])
async def test_the_words_for_a_wrong_invisible_duration_are_those_of_apaches_server(
    client: RawClient, invisible_s: float, word: str
) -> None:
    refusal = (await client.receive("billing", "orders", invisible_s=invisible_s))[0].status
    assert f"the invisibleTime is too {word}" in refusal.message


async def test_a_receive_without_messages_waits(client: RawClient) -> None:
    begun = time.monotonic()
    answers = await client.receive("billing", "orders", poll_s=5)
    assert [answer.WhichOneof("content") for answer in answers] == ["status", "delivery_timestamp"]
    assert answers[0].status.code == pb.MESSAGE_NOT_FOUND
    assert time.monotonic() - begun > 4


async def test_a_receive_wakes_up_when_a_message_comes(client: RawClient) -> None:
    waiting = asyncio.create_task(client.messages("billing", "orders", poll_s=20, timeout_s=30))
    await asyncio.sleep(0.5)
    begun = time.monotonic()
    await client.sent("orders")
    assert len(await waiting) == 1
    assert time.monotonic() - begun < 3


async def test_a_receive_with_the_same_attempt_id_gets_the_same_messages(client: RawClient) -> None:
    await client.sent("orders")
    first = await client.some("billing", "orders", 1, attempt_id="once", invisible_s=None)
    again = await client.some("billing", "orders", 1, attempt_id="once", invisible_s=None)
    assert [each.system_properties.message_id for each in again] == [
        each.system_properties.message_id for each in first
    ]
    assert again[0].system_properties.delivery_attempt == 1


async def test_messages_of_a_client_that_hangs_up_are_given_back(fleet: Fleet, client: RawClient) -> None:
    async with RawClient(fleet.settings(1).rocketmq) as gone:
        waiting = asyncio.create_task(gone.receive("billing", "orders", poll_s=20, timeout_s=30))
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await client.sent("orders")
    (message,) = await client.some("billing", "orders", 1)
    assert message.system_properties.delivery_attempt == 1


async def test_only_messages_with_the_wanted_tags_are_received(client: RawClient) -> None:
    for tag in ("paid", "open", "refunded"):
        await client.sent("orders", tag.encode(), tag=tag)
    wanted = pb.FilterExpression(type=pb.TAG, expression="paid || refunded")
    found = await client.some("billing", "orders", 2, expression=wanted)
    assert sorted(message.body for message in found) == [b"paid", b"refunded"]


async def test_a_delayed_message_comes_in_its_time_and_can_be_recalled(client: RawClient) -> None:
    now_ms = round(time.time() * 1000)
    kept = await client.sent("orders", b"kept", deliver_at_ms=now_ms + 1_500)
    recalled = await client.sent("orders", b"recalled", deliver_at_ms=now_ms + 3_600_000)
    request = service_pb2.RecallMessageRequest(topic=resource("orders"), recall_handle=recalled.recall_handle)
    answer = await client.call("RecallMessage", request)
    assert (code(answer), answer.message_id) == ("OK", recalled.message_id)
    assert code(await client.call("RecallMessage", request)) == "MESSAGE_NOT_FOUND"
    (message,) = await client.some("billing", "orders", 1)
    assert (message.body, message.system_properties.message_id) == (b"kept", kept.message_id)
    assert message.system_properties.delivery_timestamp.ToMilliseconds() == now_ms + 1_500
    for handle in ("", "garbage", kept.recall_handle[:-1]):
        request = service_pb2.RecallMessageRequest(topic=resource("orders"), recall_handle=handle)
        assert code(await client.call("RecallMessage", request)) != "OK"


async def test_a_transaction_is_committed_or_rolled_back(client: RawClient) -> None:
    entries = [await client.sent("orders", body, message_type=pb.TRANSACTION) for body in (b"commit", b"rollback")]
    for entry, resolution in zip(entries, (pb.COMMIT, pb.ROLLBACK), strict=True):
        request = service_pb2.EndTransactionRequest(
            topic=resource("orders"),
            message_id=entry.message_id,
            transaction_id=entry.transaction_id,
            resolution=resolution,
            source=pb.SOURCE_CLIENT,
        )
        assert code(await client.call("EndTransaction", request)) == "OK"
        assert code(await client.call("EndTransaction", request)) == "OK"  # once more after a lost answer
        request.resolution = pb.COMMIT if resolution == pb.ROLLBACK else pb.ROLLBACK
        assert code(await client.call("EndTransaction", request)) == "INVALID_TRANSACTION_ID"
    (message,) = await client.some("billing", "orders", 1)
    assert (message.body, message.system_properties.message_type) == (b"commit", pb.TRANSACTION)
    assert dict(message.user_properties) == {"__transactionId__": entries[0].transaction_id}
    for text in ("", "garbage", entries[0].transaction_id[:-1]):
        request = service_pb2.EndTransactionRequest(topic=resource("orders"), transaction_id=text, resolution=pb.COMMIT)
        assert code(await client.call("EndTransaction", request)) == "INVALID_TRANSACTION_ID"


async def test_a_condition_decides_which_messages_are_received(client: RawClient) -> None:
    for price in ("5", "50", "none"):
        await client.sent("orders", price.encode(), properties={"price": price})
    wanted = pb.FilterExpression(type=pb.SQL, expression="price > 10")
    (message,) = await client.some("billing", "orders", 1, expression=wanted)
    assert message.body == b"50"
    answers = await client.receive("billing", "orders", expression=pb.FilterExpression(type=pb.SQL, expression="a >"))
    assert answers[0].status.code == pb.ILLEGAL_FILTER_EXPRESSION


async def test_a_topic_takes_only_messages_of_its_type(fleet: Fleet, client: RawClient) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("ordered", 1, type="fifo")
    route = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("ordered")))
    assert list(route.message_queues[0].accept_message_types) == [pb.FIFO]
    assert code(await client.send(client.message("ordered"))) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert code(await client.send(client.message("ordered", message_group="a"))) == "OK"


async def test_a_group_that_begins_with_a_fifo_topic_has_order_by_message_group(
    fleet: Fleet, client: RawClient
) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("ordered", 1, type="fifo")
    async with client.telemetry(consumer_settings("ordering", "ordered")) as stream:
        assert stream.settings.subscription.fifo
    for number in range(3):
        await client.sent("ordered", b"%d" % number, message_group="a")
    await client.sent("ordered", b"other", message_group="b")
    found = await client.some("ordering", "ordered", 2, batch=1, invisible_s=None)
    assert sorted(message.body for message in found) == [b"0", b"other"]
    assert await client.messages("ordering", "ordered", batch=1, invisible_s=None) == []
    (first,) = [message for message in found if message.body == b"0"]
    assert code(await client.ack("ordering", "ordered", first)) == "OK"
    (second,) = await client.some("ordering", "ordered", 1, batch=1, invisible_s=None)
    assert second.body == b"1"


async def test_a_message_is_moved_to_the_dead_letters(fleet: Fleet, client: RawClient) -> None:
    entry = await client.sent("orders", b"bad", properties={"colour": "red"})
    (message,) = await client.some("billing", "orders", 1)
    request = service_pb2.ForwardMessageToDeadLetterQueueRequest(
        group=resource("billing"),
        topic=resource("orders"),
        receipt_handle=message.system_properties.receipt_handle,
        message_id=entry.message_id,
        delivery_attempt=1,
        max_delivery_attempts=1,
    )
    assert code(await client.call("ForwardMessageToDeadLetterQueue", request)) == "OK"
    assert code(await client.call("ForwardMessageToDeadLetterQueue", request)) == "OK"  # after a lost answer
    (dead,) = await client.some("mourners", "%DLQ%billing", 1)
    assert (dead.body, dict(dead.user_properties)["colour"]) == (b"bad", "red")
    assert dead.system_properties.dead_letter_queue == pb.DeadLetterQueue(topic="orders", message_id=entry.message_id)
    assert await client.messages("mourners", "%DLQ%billing") == []
    request.receipt_handle = "garbage"
    assert code(await client.call("ForwardMessageToDeadLetterQueue", request)) == "INVALID_RECEIPT_HANDLE"


async def test_the_producer_of_a_topic_is_asked_for_an_orphaned_transaction(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.stop()
    quick = {"transaction_check_after_s": 0.2, "transaction_check_every_s": 1.0}
    fleet.override(1, rocketmq=fleet.settings(1).rocketmq, **quick)
    await fleet.start()
    await fleet.leader()
    async with (
        RawClient(fleet.settings(1).rocketmq) as client,
        client.telemetry(producer_settings("orders")) as stream,
        asyncio.timeout(30),
    ):
        entry = await client.sent("orders", b"half", message_type=pb.TRANSACTION, tag="paid")
        command = (await stream.read()).recover_orphaned_transaction_command
        assert command.transaction_id == entry.transaction_id
        assert (command.message.body, command.message.system_properties.tag) == (b"half", "paid")
        assert command.message.system_properties.message_id == entry.message_id
        assert command.message.system_properties.body_digest.checksum
        request = service_pb2.EndTransactionRequest(
            topic=command.message.topic,
            message_id=command.message.system_properties.message_id,
            transaction_id=command.transaction_id,
            resolution=pb.COMMIT,
            source=pb.SOURCE_SERVER_CHECK,
        )
        assert code(await client.call("EndTransaction", request)) == "OK"
        (message,) = await client.some("billing", "orders", 1)
        assert message.body == b"half"


async def test_the_waiting_receive_of_a_client_that_ends_is_answered_at_once(client: RawClient) -> None:
    waiting = asyncio.create_task(client.receive("billing", "orders", poll_s=20, timeout_s=30))
    await asyncio.sleep(1)
    begun = time.monotonic()
    await client.call("NotifyClientTermination", service_pb2.NotifyClientTerminationRequest(group=resource("billing")))
    assert (await waiting)[0].status.code == pb.MESSAGE_NOT_FOUND
    assert time.monotonic() - begun < 5


async def test_as_many_properties_as_allowed_have_room_beside_what_the_front_adds(client: RawClient) -> None:
    properties = {f"p{number:03}": "x" * 110 for number in range(128)}
    keys = [f"key-{number}" for number in range(20)]
    await client.sent("orders", properties=properties, keys=keys, born_host="h", trace_context="t", tag="a")
    (message,) = await client.some("billing", "orders", 1)
    assert dict(message.user_properties) == properties
    assert list(message.system_properties.keys) == keys


async def test_a_queue_is_read_by_offsets_and_a_group_keeps_its_offset(client: RawClient) -> None:
    for number in range(5):
        await client.sent("orders", b"%d" % number, message_group="one queue")
    (first,) = await client.some("looking", "orders", 1, batch=1)
    queue = pb.MessageQueue(topic=resource("orders"), id=first.system_properties.queue_id)

    async def pull(offset: int, **given: Any) -> list[service_pb2.PullMessageResponse]:
        request = service_pb2.PullMessageRequest(
            group=resource("pulling"), message_queue=queue, offset=offset, **{"batch_size": 32, **given}
        )
        return [each async for each in client.stub.PullMessage(request, metadata=client.metadata, timeout=20)]

    answers = await pull(1, batch_size=2)
    assert [each.message.body for each in answers[1:-1]] == [b"1", b"2"]
    assert answers[-1].next_offset == 3
    end = await pull(5)
    assert (end[0].status.code, end[-1].next_offset) == (pb.MESSAGE_NOT_FOUND, 5)
    assert [each.status.code for each in await pull(99)] == [pb.ILLEGAL_OFFSET]
    for policy, expected in ((pb.BEGINNING, 0), (pb.END, 5), (pb.TIMESTAMP, 0)):
        query = service_pb2.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
        assert (await client.call("QueryOffset", query)).offset == expected
    get = service_pb2.GetOffsetRequest(group=resource("pulling"), message_queue=queue)
    assert code(await client.call("GetOffset", get)) == "OFFSET_NOT_FOUND"
    update = service_pb2.UpdateOffsetRequest(group=resource("pulling"), message_queue=queue, offset=3)
    assert code(await client.call("UpdateOffset", update)) == "OK"
    answer = await client.call("GetOffset", get)
    assert (code(answer), answer.offset) == ("OK", 3)
    update.offset = -1
    assert code(await client.call("UpdateOffset", update)) == "ILLEGAL_OFFSET"


async def test_a_message_that_is_sent_again_is_stored_once(fleet: Fleet, client: RawClient) -> None:
    now_ms = round(time.time() * 1000)
    for given in ({}, {"message_group": "a"}, {"deliver_at_ms": now_ms + 500}):
        message = client.message("orders", **given)
        first = (await client.send(message)).entries[0]
        async with RawClient(fleet.settings(1).rocketmq) as other:
            again = (await other.send(message)).entries[0]
        assert again == first
    found = await client.some("billing", "orders", 3)
    found += await client.messages("billing", "orders")
    assert len(found) == 3


async def test_a_transaction_that_is_begun_again_is_one(client: RawClient) -> None:
    message = client.message("orders", message_type=pb.TRANSACTION)
    first, again = [(await client.send(message)).entries[0] for _ in range(2)]
    assert again.transaction_id == first.transaction_id


async def test_lite_topics_are_refused(client: RawClient) -> None:
    assert code(await client.call("SyncLiteSubscription", service_pb2.SyncLiteSubscriptionRequest())) == "UNSUPPORTED"


async def test_sends_and_acknowledgements_of_one_turn_share_proposals(fleet: Fleet, client: RawClient) -> None:
    """Here without gRPC, which hands over requests one by one."""
    ports = fleet.running[1]._rocketmq
    assert ports is not None
    front, clients = ports.front, await ports.front.pool.of(ANYBODY)
    call = FrontCall("client", "JAVA", ANYBODY, is_tls=False, peer="ipv4:127.0.0.1:1", left_s=60.0)
    await client.sent("orders", b"first")
    await client.some("billing", "orders", 1)
    requests = [
        service_pb2.SendMessageRequest(messages=[client.message("orders", b"%d" % number)]) for number in range(200)
    ]
    before = (await fleet.status(1)).last_index
    answers = await asyncio.gather(*(front.sending.send(request, call, clients) for request in requests))
    assert {code(answer) for answer in answers} == {"OK"}
    assert (await fleet.status(1)).last_index - before < 10
    messages = await client.some("billing", "orders", 200)
    handles = [message.system_properties.receipt_handle for message in messages]
    acknowledged = [
        service_pb2.AckMessageRequest(
            group=resource("billing"),
            topic=resource("orders"),
            entries=[service_pb2.AckMessageEntry(receipt_handle=handle)],
        )
        for handle in handles
    ]
    before = (await fleet.status(1)).last_index
    results = await asyncio.gather(*(front.acknowledging.acknowledge(request, clients) for request in acknowledged))
    assert {code(answer) for answer in results} == {"OK"}
    assert (await fleet.status(1)).last_index - before < 10


async def test_the_messages_of_a_client_that_ends_come_again_soon(fleet: Fleet, client: RawClient) -> None:
    await client.sent("orders")
    async with RawClient(fleet.settings(1).rocketmq) as gone:
        assert len(await gone.some("billing", "orders", 1, invisible_s=None)) == 1
        request = service_pb2.NotifyClientTerminationRequest(group=resource("billing"))
        assert code(await gone.call("NotifyClientTermination", request)) == "OK"
    begun = time.monotonic()
    (message,) = await client.some("billing", "orders", 1)
    assert message.system_properties.delivery_attempt == 2
    assert time.monotonic() - begun < 15


async def test_a_group_whose_members_own_queues_is_refused(fleet: Fleet, client: RawClient) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_consumer_group("owners", mode="queue")

        async def refused() -> bool:
            answers = await client.receive("owners", "orders")
            return answers[0].status.code == pb.BAD_REQUEST

        assert await eventually(refused, "the group is refused")

"""A client of RocketMQ's protocol that sends what a test says, without any behaviour of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc.aio

from ledger.access.rocketmq import sign_date
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.rocketmq.v2.admin_pb2_grpc import AdminStub
from ledger.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from tests.cluster.fleet import Fleet
from tests.cluster.ports import free_base_port

_numbers = itertools.count()


def resource(name: str) -> pb.Resource:
    return pb.Resource(name=name)


def code(answer: Any) -> str:
    """Return the name of the code of an answer."""
    return str(pb.Code.Name(answer.status.code))


@asynccontextmanager
async def rocketmq_fleet(directory: Path, **settings: Any) -> AsyncIterator[Fleet]:
    """Run one node with a port for RocketMQ clients and the topic `orders`."""
    fleet = Fleet(directory, 1, **settings)
    fleet.override(1, rocketmq=f"127.0.0.1:{free_base_port(1)}")
    fleet.directory.mkdir(exist_ok=True)
    try:
        await fleet.start()
        await fleet.leader()
        await fleet.create_topic("orders", queues=2)
        yield fleet
    finally:
        await fleet.close()


def signed(name: str, secret: str, date: str = "") -> list[tuple[str, str]]:
    """Return the headers by which a user proves itself. By default, it signs the present time."""
    date = date or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    signature = sign_date(secret, date).hex().upper()
    header = f"MQv2-HMAC-SHA1 Credential={name}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={signature}"
    return [("x-mq-date-time", date), ("authorization", header)]


class RawClient:
    """One client id on one connection."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = None,
        language: str = "GOLANG",
        headers: Iterable[tuple[str, str]] = (),
        credentials: Any = None,
        options: Iterable[tuple[str, Any]] = (),
    ) -> None:
        """Without `client_id`, each client has its own. With "", it sends none. With `credentials`, it uses TLS."""
        self.client_id = f"raw@{next(_numbers)}" if client_id is None else client_id
        given = [("x-mq-client-id", self.client_id)] if self.client_id else []
        self.metadata = (*given, ("x-mq-language", language), *headers)
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(address, options=[*options])
        else:
            self.channel = grpc.aio.secure_channel(address, credentials, options=[*options])
        self.stub: Any = MessagingServiceStub(self.channel)
        self.admin: Any = AdminStub(self.channel)

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def call(self, method: str, request: Any, timeout_s: float = 20.0) -> Any:
        return await getattr(self.stub, method)(request, metadata=self.metadata, timeout=timeout_s)

    async def administer(self, method: str, request: Any) -> Any:
        return await getattr(self.admin, method)(request, metadata=self.metadata, timeout=20)

    # -- producing

    def message(self, topic: str, body: bytes = b"hello", **system: Any) -> pb.Message:
        properties = system.pop("properties", {})
        deliver_at_ms = system.pop("deliver_at_ms", None)
        given = {"message_id": f"01{next(_numbers):032X}", "body_encoding": pb.IDENTITY, **system}
        message = pb.Message(
            topic=resource(topic),
            body=body,
            user_properties=properties,
            system_properties=pb.SystemProperties(**given),
        )
        if deliver_at_ms is not None:
            message.system_properties.delivery_timestamp.FromMilliseconds(deliver_at_ms)
        return message

    async def send(self, *messages: pb.Message) -> service_pb2.SendMessageResponse:
        answer: service_pb2.SendMessageResponse = await self.call(
            "SendMessage", service_pb2.SendMessageRequest(messages=messages)
        )
        return answer

    async def sent(self, topic: str, body: bytes = b"hello", **system: Any) -> service_pb2.SendResultEntry:
        """Send a message, which the node takes, and return its result."""
        answer = await self.send(self.message(topic, body, **system))
        assert answer.status.code == pb.OK, answer
        return answer.entries[0]

    # -- consuming

    async def receive(
        self,
        group: str,
        topic: str,
        *,
        batch: int = 32,
        invisible_s: float | None = 30.0,
        poll_s: float = 5.0,
        timeout_s: float = 20.0,
        attempt_id: str = "",
        expression: pb.FilterExpression | None = None,
        broker: str = "",
    ) -> list[service_pb2.ReceiveMessageResponse]:
        """Return all answers of one receive. Without `invisible_s`, the node extends the leases."""
        request = service_pb2.ReceiveMessageRequest(
            group=resource(group),
            message_queue=pb.MessageQueue(topic=resource(topic), id=-1, broker=pb.Broker(name=broker)),
            filter_expression=expression or pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=batch,
            auto_renew=invisible_s is None,
        )
        if attempt_id:
            request.attempt_id = attempt_id
        request.long_polling_timeout.FromMilliseconds(round(poll_s * 1000))
        if invisible_s is not None:
            request.invisible_duration.FromMilliseconds(round(invisible_s * 1000))
        call = self.stub.ReceiveMessage(request, metadata=self.metadata, timeout=timeout_s)
        return [answer async for answer in call]

    async def messages(self, group: str, topic: str, **given: Any) -> list[pb.Message]:
        """Return the messages of one receive, which is no refusal."""
        answers = await self.receive(group, topic, **given)
        assert answers[0].status.code in (pb.OK, pb.MESSAGE_NOT_FOUND), answers[0]
        assert answers[-1].WhichOneof("content") == "delivery_timestamp"
        return [answer.message for answer in answers[1:-1]]

    async def some(self, group: str, topic: str, count: int, **given: Any) -> list[pb.Message]:
        """Receive until there are `count` messages."""
        found: list[pb.Message] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await self.messages(group, topic, **given)
        return found

    async def ack(self, group: str, topic: str, *messages: pb.Message | str) -> service_pb2.AckMessageResponse:
        """Acknowledge messages, or handles."""
        entries = [
            service_pb2.AckMessageEntry(receipt_handle=each)
            if isinstance(each, str)
            else service_pb2.AckMessageEntry(
                message_id=each.system_properties.message_id, receipt_handle=each.system_properties.receipt_handle
            )
            for each in messages
        ]
        request = service_pb2.AckMessageRequest(group=resource(group), topic=resource(topic), entries=entries)
        answer: service_pb2.AckMessageResponse = await self.call("AckMessage", request)
        return answer

    async def invisible(
        self, group: str, topic: str, handle: str, duration_s: float
    ) -> service_pb2.ChangeInvisibleDurationResponse:
        request = service_pb2.ChangeInvisibleDurationRequest(
            group=resource(group), topic=resource(topic), receipt_handle=handle
        )
        request.invisible_duration.FromMilliseconds(round(duration_s * 1000))
        answer: service_pb2.ChangeInvisibleDurationResponse = await self.call("ChangeInvisibleDuration", request)
        return answer

    # -- telemetry

    @asynccontextmanager
    async def telemetry(self, settings: pb.Settings | None = None) -> AsyncIterator[Any]:
        """Open a telemetry stream. With `settings`, tell them and read the answer, which is `stream.settings`."""
        stream = self.stub.Telemetry(metadata=self.metadata)
        try:
            if settings is not None:
                await stream.write(service_pb2.TelemetryCommand(settings=settings))
                stream.settings = (await stream.read()).settings
            yield stream
        finally:
            stream.cancel()


def producer_settings(*topics: str) -> pb.Settings:
    return pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[resource(topic) for topic in topics]))


def consumer_settings(group: str, *topics: str, kind: pb.ClientType = pb.PUSH_CONSUMER) -> pb.Settings:
    subscriptions = [pb.SubscriptionEntry(topic=resource(topic)) for topic in topics]
    return pb.Settings(
        client_type=kind, subscription=pb.Subscription(group=resource(group), subscriptions=subscriptions)
    )

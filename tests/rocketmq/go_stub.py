"""A stand-in for the official Go client, whose module no registry here has: raw calls in the manner of Go's client.

What it copies, by the account of Go's sources:

    connection   one for each list of addresses, in random order; gRPC stays at the first that answers, and a call that
                 fails does not move it
    start        routes from the access point, then a telemetry stream for each list of addresses; it waits for the
                 answer to its settings, and a stream that ends stays closed until the next settings, 5 minutes later
    upkeep       a heartbeat every 10 s and new routes every 30 s; their errors are only logged
    send         one message, a deadline of 3 s, at most the attempts of the settings, at once and with the same
                 message id; a message with a group has one queue for all attempts
    receive      assignments every 5 s, one receive with its own attempt id for each, again 20 ms after an error; only
                 a receive whose deadline is over keeps its attempt id; a receive that breaks is lost as a whole
    acknowledge  one message for each call, again each second until the answer is OK or INVALID_RECEIPT_HANDLE
    metadata     on each call: all headers, a local time that claims to be UTC, and a signature even without a secret

What it does not copy: Go's implementation of gRPC, whose part grpcio has here; the choice of a queue by SipHash, which
no server looks at; caches and thread pools; metrics; the commands of a server; transactions, delays and simple
consumers.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
import zlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ledger.access.rocketmq import sign_date
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from tests.cluster.rocketmq_stubs import consumer_settings, resource
from tests.rocketmq.programs import Told

_REQUEST_S = 3.0
_HEARTBEAT_S, _FIRST_HEARTBEAT_S = 10.0, 1.0
_ROUTES_S = 30.0
_ASSIGNMENTS_S = 5.0
_RECEIVE_AGAIN_S, _ACKNOWLEDGE_AGAIN_S = 0.02, 1.0
_BATCH = 32
_numbers = count()

TaskStarter = Callable[[Coroutine[Any, Any, None]], Any]


class GoClient:
    """What Go's producer and consumer have in common."""

    def __init__(self, connection: Told, settings: pb.Settings) -> None:
        """`connection`: the endpoints and the keys, as in clients/README.md; with TLS, `ca` is the file of roots."""
        self._connection = connection
        self.settings = settings
        self._client_id = f"{socket.gethostname()}@{os.getpid()}@{next(_numbers)}@go"
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._streams: dict[str, Any] = {}
        self.routes: dict[str, Sequence[pb.MessageQueue]] = {}

    async def start(self, topics: Iterable[str]) -> None:
        for topic in topics:
            await self._query_route(topic)

    async def upkeep(self) -> None:
        """Send heartbeats and ask for routes, until the task is cancelled."""
        await asyncio.sleep(_FIRST_HEARTBEAT_S)
        for turn in count(1):
            for addresses in list(self._streams):
                await _unless_cut_off(self.call(addresses, "Heartbeat", self._heartbeat()))
            if turn % round(_ROUTES_S / _HEARTBEAT_S) == 0:
                for topic in list(self.routes):
                    await _unless_cut_off(self._query_route(topic))
            await asyncio.sleep(_HEARTBEAT_S)

    async def call(self, addresses: str, method: str, request: Any) -> Any:
        """Raises AioRpcError."""
        return await getattr(self.stub(addresses), method)(request, metadata=self.metadata(), timeout=_REQUEST_S)

    def stub(self, addresses: str) -> Any:
        channel = self._channels.get(addresses)
        if channel is None:
            shuffled = addresses.split(";")
            random.shuffle(shuffled)
            channel = self._channels[addresses] = _open("ipv4:" + ",".join(shuffled), self._connection.get("ca"))
        return MessagingServiceStub(channel)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        date = datetime.now().strftime("%Y%m%dT%H%M%SZ")
        signature = sign_date(self._connection.get("secret_key", ""), date).hex()
        credential = f"{self._connection.get('access_key', '')}//Rocketmq"
        return (
            ("x-mq-language", "GO"),
            ("x-mq-protocol", "v2"),
            ("x-mq-request-id", str(uuid.uuid4())),
            ("x-mq-client-version", "5.1.2"),
            ("x-mq-client-id", self._client_id),
            ("x-mq-namespace", ""),
            ("x-mq-date-time", date),
            (
                "authorization",
                f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}",
            ),
        )

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _heartbeat(self) -> service_pb2.HeartbeatRequest:
        group = self.settings.subscription.group if self.settings.HasField("subscription") else None
        return service_pb2.HeartbeatRequest(group=group, client_type=self.settings.client_type)

    async def _query_route(self, topic: str) -> None:
        access_point = self._connection["endpoints"]
        route = await self.call(access_point, "QueryRoute", service_pb2.QueryRouteRequest(topic=resource(topic)))
        if route.status.code == pb.OK:
            for queue in route.message_queues:
                await self._telemetry(addresses_of(queue))
            self.routes[topic] = route.message_queues

    async def _telemetry(self, addresses: str) -> None:
        """Open the telemetry stream of a list of addresses, tell the settings, and wait for those that count."""
        if addresses not in self._streams:
            stream = self._streams[addresses] = self.stub(addresses).Telemetry(metadata=self.metadata())
            await stream.write(service_pb2.TelemetryCommand(settings=self.settings))
            self.settings = (await stream.read()).settings


class GoProducer(GoClient):
    async def send(self, topic: str, body: str, group: str) -> str:
        """Send a message, and return "" or why it failed."""
        queues = self.routes[topic]
        addresses = addresses_of(queues[zlib.crc32(group.encode()) % len(queues)])
        system = pb.SystemProperties(
            message_id=f"01{uuid.uuid4().hex.upper()}",
            message_type=pb.FIFO,
            message_group=group,
            body_encoding=pb.IDENTITY,
            born_host=socket.gethostname(),
        )
        system.born_timestamp.GetCurrentTime()
        message = pb.Message(topic=resource(topic), body=body.encode(), system_properties=system)
        failed = "no attempt"
        for _ in range(self.settings.backoff_policy.max_attempts):
            try:
                answer = await self.call(addresses, "SendMessage", service_pb2.SendMessageRequest(messages=[message]))
            except grpc.aio.AioRpcError as error:
                failed = f"{error.code().name}: {error.details()}"
                continue
            if answer.status.code == pb.OK:
                return ""
            failed = f"{pb.Code.Name(answer.status.code)}: {answer.status.message}"
        return failed


class GoPushConsumer(GoClient):
    """A consumer of one topic. `handled` is called with each message, in order within a message group."""

    def __init__(
        self, connection: Told, group: str, topic: str, handled: Callable[[pb.Message], None], tasks: TaskStarter
    ) -> None:
        super().__init__(connection, consumer_settings(group, topic))
        self._group, self._topic, self._handled, self._tasks = group, topic, handled, tasks
        self._assigned: set[bytes] = set()

    async def scan(self) -> None:
        """Ask for assignments, and receive from each, until the task is cancelled."""
        request = service_pb2.QueryAssignmentRequest(topic=resource(self._topic), group=resource(self._group))
        await asyncio.sleep(_FIRST_HEARTBEAT_S)
        while True:
            answer = await _unless_cut_off(self.call(self._connection["endpoints"], "QueryAssignment", request))
            for assignment in answer.assignments if answer else ():
                place = (assignment.message_queue.broker.name, assignment.message_queue.id)
                if (key := repr(place).encode()) not in self._assigned:
                    self._assigned.add(key)
                    self._tasks(self._receive(assignment.message_queue))
            await asyncio.sleep(_ASSIGNMENTS_S)

    async def _receive(self, queue: pb.MessageQueue) -> None:
        attempt_id = ""
        while True:
            attempt_id = attempt_id or str(uuid.uuid4())
            try:
                messages = await self._received(queue, attempt_id)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    attempt_id = ""
                await asyncio.sleep(_RECEIVE_AGAIN_S)
                continue
            attempt_id = ""
            if messages:
                self._tasks(self._consume(messages, addresses_of(queue)))
            else:
                await asyncio.sleep(_RECEIVE_AGAIN_S)

    async def _received(self, queue: pb.MessageQueue, attempt_id: str) -> list[pb.Message]:
        poll = self.settings.subscription.long_polling_timeout
        request = service_pb2.ReceiveMessageRequest(
            group=resource(self._group),
            message_queue=queue,
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=_BATCH,
            auto_renew=True,
            attempt_id=attempt_id,
            long_polling_timeout=poll,
        )
        timeout = poll.seconds + _REQUEST_S
        call = self.stub(addresses_of(queue)).ReceiveMessage(request, metadata=self.metadata(), timeout=timeout)
        return [answer.message async for answer in call if answer.HasField("message")]

    async def _consume(self, messages: Sequence[pb.Message], addresses: str) -> None:
        for message in messages:
            self._handled(message)
            await self._acknowledge(message, addresses)

    async def _acknowledge(self, message: pb.Message, addresses: str) -> None:
        system = message.system_properties
        entry = service_pb2.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
        request = service_pb2.AckMessageRequest(
            group=resource(self._group), topic=resource(self._topic), entries=[entry]
        )
        while True:
            answer = await _unless_cut_off(self.call(addresses, "AckMessage", request))
            if answer and answer.status.code in (pb.OK, pb.INVALID_RECEIPT_HANDLE):
                return
            await asyncio.sleep(_ACKNOWLEDGE_AGAIN_S)


def addresses_of(queue: pb.MessageQueue) -> str:
    """Return the addresses of a queue in order, by which Go's client knows its connections."""
    return ";".join(sorted(f"{each.host}:{each.port}" for each in queue.broker.endpoints.addresses))


async def _unless_cut_off(answer: Coroutine[Any, Any, Any]) -> Any:
    """Return the answer to a call, or None if there is none."""
    try:
        return await answer
    except grpc.aio.AioRpcError:
        return None


def _open(target: str, ca: str | None) -> grpc.aio.Channel:
    options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1)]
    if ca is None:
        return grpc.aio.insecure_channel(target, options=options)
    # Go's client accepts any name. grpcio would look for the whole list of addresses in the certificate.
    options.append(("grpc.ssl_target_name_override", "localhost"))
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(Path(ca).read_bytes()), options=options)

"""A mirror's connection to one server: its calls, and the stream on which it tells that it is a consumer.

A server of Apache answers receives of a consumer only when it has the consumer's settings. So the connection opens a
telemetry stream, tells its settings, and opens the stream again when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import grpc
import grpc.aio

from ledger.cancellation import heed_cancellation
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceAddress, SourceSettings
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.rocketmq.v2.service_pb2_grpc import MessagingServiceStub

CALL_S = 10.0
# How long a server may take to answer the settings.
SETTINGS_S = 10.0
HEARTBEAT_S = 10.0
_AGAIN_S = 1.0
_GOODBYE_S = 2.0

# A request with one of these codes is refused again.
_FINAL_CODES = frozenset(
    {
        pb.ILLEGAL_ACCESS_POINT,
        pb.ILLEGAL_TOPIC,
        pb.ILLEGAL_CONSUMER_GROUP,
        pb.ILLEGAL_INVISIBLE_TIME,
        pb.UNRECOGNIZED_CLIENT_TYPE,
        pb.UNAUTHORIZED,
        pb.FORBIDDEN,
        pb.TOPIC_NOT_FOUND,
        pb.CONSUMER_GROUP_NOT_FOUND,
        pb.NOT_IMPLEMENTED,
        pb.UNSUPPORTED,
    }
)
_FINAL_STATUSES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)


class SourceConnection:
    """Calls one server. Run the method `run` as a task, wait for `ready`, and call `close` at the end."""

    def __init__(
        self, address: SourceAddress, settings: SourceSettings, topics: Sequence[str], now: Callable[[], datetime]
    ) -> None:
        """`topics` are those that the mirror consumes. `now()` returns the time in UTC."""
        self.address = address
        # Whether the server hands out the messages of a queue in their order; None until it has told.
        self.is_ordered: bool | None = None
        self._settings = settings
        self._topics = topics
        self._now = now
        self._channel = settings.channel(address)
        self._stub: Any = MessagingServiceStub(self._channel)
        # Set when the server has answered the settings, or has refused them.
        self._answered = asyncio.Event()
        self._refusal: MirrorError | None = None

    async def ready(self) -> None:
        """Return when the server has this consumer's settings. Raises MirrorError."""
        try:
            async with asyncio.timeout(SETTINGS_S):
                await self._answered.wait()
        except TimeoutError:
            raise MirrorError(
                f"{self.address} did not answer the settings of a consumer within {SETTINGS_S:g} s",
                retriable=True,
                is_unreachable=True,
            ) from None
        if self._refusal is not None:
            raise self._refusal

    async def call(self, method: str, request: Any, timeout_s: float = CALL_S) -> Any:
        """Return the answer to a request, whatever its status. Raises MirrorError if there is none."""
        try:
            return await getattr(self._stub, method)(request, metadata=self._metadata(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def receive(
        self, request: service_pb2.ReceiveMessageRequest, timeout_s: float
    ) -> AsyncIterator[service_pb2.ReceiveMessageResponse]:
        """Yield the answers to a receive. Raises MirrorError."""
        call = self._stub.ReceiveMessage(request, metadata=self._metadata(), timeout=timeout_s)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error
        finally:
            call.cancel()

    def check(self, status: pb.Status, what: str) -> None:
        """Raise MirrorError if an answer to `what` has another status than OK."""
        if status.code != pb.OK:
            name = pb.Code.Name(status.code) if status.code in pb.Code.values() else str(status.code)
            raise MirrorError(
                f"{self.address} refused {what}: {name}: {status.message}", retriable=status.code not in _FINAL_CODES
            )

    async def run(self) -> None:
        """Keep the server informed that this consumer is there, until the task is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat(), name=f"heartbeats to {self.address}")
            while True:
                try:
                    await self._tell()
                except grpc.aio.AioRpcError as error:
                    self._answer(self._failed(error))
                except asyncio.InvalidStateError:  # the stream ended while it was written to
                    pass
                heed_cancellation()
                await asyncio.sleep(_AGAIN_S)

    async def close(self) -> None:
        """Tell the server that this consumer ends, and close the connection."""
        request = service_pb2.NotifyClientTerminationRequest(group=self._group())
        if self.is_ordered is not None:
            with suppress(MirrorError):
                await self.call("NotifyClientTermination", request, _GOODBYE_S)
        await self._channel.close()

    async def _tell(self) -> None:
        """Tell the settings on a new stream, and return when the stream ends."""
        stream = self._stub.Telemetry(metadata=self._metadata())
        try:
            await stream.write(service_pb2.TelemetryCommand(settings=self._own_settings()))
            while (command := await stream.read()) is not grpc.aio.EOF:
                if command.HasField("settings"):
                    self.is_ordered = command.settings.subscription.fifo
                    self._answer(None)
        finally:
            stream.cancel()

    def _answer(self, refusal: MirrorError | None) -> None:
        self._refusal = refusal
        self._answered.set()

    async def _beat(self) -> None:
        request = service_pb2.HeartbeatRequest(group=self._group(), client_type=pb.SIMPLE_CONSUMER)
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with suppress(MirrorError):  # the next receive tells what is wrong
                await self.call("Heartbeat", request)

    def _own_settings(self) -> pb.Settings:
        entries = [
            pb.SubscriptionEntry(
                topic=pb.Resource(name=topic), expression=pb.FilterExpression(type=pb.TAG, expression="*")
            )
            for topic in self._topics
        ]
        return pb.Settings(
            client_type=pb.SIMPLE_CONSUMER,
            access_point=self._settings.endpoints,
            subscription=pb.Subscription(group=self._group(), subscriptions=entries),
            user_agent=pb.UA(language=pb.PYTHON),
        )

    def _group(self) -> pb.Resource:
        return pb.Resource(name=self._settings.group)

    def _metadata(self) -> list[tuple[str, str]]:
        return self._settings.headers(self._now())

    def _failed(self, error: grpc.aio.AioRpcError) -> MirrorError:
        advice = ""
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            advice = ": this port does not serve RocketMQ 5's gRPC protocol. Use that of the proxy"
        elif error.code() is grpc.StatusCode.UNAVAILABLE:
            advice = ", with TLS" if self._settings.tls else ", in plaintext"
        return MirrorError(
            f"{self.address} did not answer ({error.code().name}: {error.details()}){advice}",
            retriable=error.code() not in _FINAL_STATUSES,
            is_unreachable=True,
        )

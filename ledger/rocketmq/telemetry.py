"""Serves the telemetry stream of a client: its settings, and the commands to it.

    client ─ settings ─> answer with the settings that count
    client <─ commands ─ "how did this transaction end?"

Node.js's client with several topics begins to wait for its settings when it knows the routes of all topics, and waits
for ever if it got them before. So it gets them several times.

A slow client delays only itself: the node reads the next message of a client after the client has read all commands.
The stream ends when the user was removed or has a new password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from grpc import StatusCode, aio

from ledger.broker.access.callers import Caller
from ledger.errors import LedgerError, UnavailableError
from ledger.rocketmq.calls import Context, FrontCall
from ledger.rocketmq.client_settings import consumer_settings, producer_settings
from ledger.rocketmq.filters import filter_of
from ledger.rocketmq.groups import ATTEMPTS, FrontGroups
from ledger.rocketmq.names import group_of, topic_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.outgoing_message import FrontLimits
from ledger.rocketmq.producers import TopicProducers
from ledger.rocketmq.refusals import FrontRefusal, ok, refusal_of
from ledger.rocketmq.routing import routed_topic
from ledger.rocketmq.sessions import MAX_COMMANDS, Command, FrontSession, FrontSessions
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

MAX_TOPICS = 256
MAX_SETTINGS_BYTES = 256 << 10
# How often a stream looks whether its user still counts.
LOOK_S = 5.0
# A client that reads nothing for this time is refused.
STALLED_S = 30.0
# When Node.js's client gets its settings again, after the answer.
REPEATS_S = (0.5, 2.0, 5.0, 10.0)
_CONSUMERS = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER})
_LITE = frozenset({pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER})


class FrontTelemetry:
    """Serves the telemetry streams of one node."""

    def __init__(
        self,
        sessions: FrontSessions,
        producers: TopicProducers,
        groups: FrontGroups,
        limits: FrontLimits,
        check: Callable[[Caller], None],
    ) -> None:
        """`check(caller)` raises LedgerError if the caller does not count any more."""
        self._sessions = sessions
        self._producers = producers
        self._groups = groups
        self._limits = limits
        self._check = check

    async def serve(self, call: FrontCall, clients: NativeClients, context: Context) -> None:
        """Serve one stream until it ends."""
        session = self._sessions.seen(call)
        outbox: asyncio.Queue[Command] = asyncio.Queue(MAX_COMMANDS)
        key = object()
        session.streams[key] = outbox
        repeats: list[asyncio.TimerHandle] = []
        reading = self._read(call, clients, context, outbox, repeats)
        reader = asyncio.create_task(reading, name="telemetry of a RocketMQ client")
        sending = asyncio.Lock()
        writer = asyncio.create_task(_write(context, outbox, sending), name="commands to a RocketMQ client")
        watch = asyncio.create_task(self._watch(call.caller), name="the user of a RocketMQ client")
        tasks = (reader, writer, watch)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            async with sending:  # gRPC can send nothing else before the command is sent that it is sending
                writer.cancel()
        finally:
            session.streams.pop(key, None)
            self._sessions.stream_ended(session)
            for repeat in repeats:
                repeat.cancel()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, FrontRefusal):
                await context.abort(result.stream_status, result.message)
            elif isinstance(result, TimeoutError):
                await context.abort(StatusCode.RESOURCE_EXHAUSTED, "the client does not read this stream")
            elif isinstance(result, Exception):
                raise result

    async def _read(
        self,
        call: FrontCall,
        clients: NativeClients,
        context: Context,
        outbox: asyncio.Queue[Command],
        repeats: list[asyncio.TimerHandle],
    ) -> None:
        """Read what the client tells until it ends the stream. `repeats` are the answers that it gets again. Raises
        FrontRefusal."""
        while (command := await context.read()) is not aio.EOF:
            session = self._sessions.seen(call)
            if command.ByteSize() > MAX_SETTINGS_BYTES:
                raise FrontRefusal(pb.BAD_REQUEST, f"a command has at most {MAX_SETTINGS_BYTES} bytes")
            if command.WhichOneof("command") == "settings":
                settings = await self._settings(session, call, clients, command.settings)
                answer = service_pb2.TelemetryCommand(status=ok(), settings=settings)
                await outbox.put(answer)
                for earlier in repeats:
                    earlier.cancel()
                repeats[:] = _repeated(answer, outbox) if _waits_late(call, settings) else ()
                await outbox.join()

    async def _watch(self, caller: Caller) -> None:
        """Raise FrontRefusal when the caller does not count any more."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self._check(caller)
            except UnavailableError:
                continue  # this node cannot know now
            except LedgerError as error:
                raise refusal_of(error) from error

    async def _settings(
        self, session: FrontSession, call: FrontCall, clients: NativeClients, told: pb.Settings
    ) -> pb.Settings:
        """Return the settings that count. Raises FrontRefusal."""
        try:
            kind = told.client_type
            if kind in _LITE:
                raise FrontRefusal(pb.UNRECOGNIZED_CLIENT_TYPE, "this cluster has no lite topics")
            if kind == pb.PRODUCER or told.WhichOneof("pub_sub") == "publishing":
                return self._producer(session, clients, told)
            if kind in _CONSUMERS and told.WhichOneof("pub_sub") == "subscription":
                return await self._consumer(session, call, clients, told)
        except LedgerError as error:
            raise refusal_of(error) from error
        raise FrontRefusal(pb.UNRECOGNIZED_CLIENT_TYPE, "the settings name neither a producer nor a consumer")

    def _producer(self, session: FrontSession, clients: NativeClients, told: pb.Settings) -> pb.Settings:
        if len(told.publishing.topics) > MAX_TOPICS:
            raise FrontRefusal(pb.BAD_REQUEST, f"a client names at most {MAX_TOPICS} topics")
        self._producers.name(session, [topic_of(topic) for topic in told.publishing.topics])
        limit = clients.cluster.routes.table.max_message_bytes or self._limits.max_body_bytes
        return producer_settings(told, max_body_bytes=min(limit, self._limits.max_body_bytes))

    async def _consumer(
        self, session: FrontSession, call: FrontCall, clients: NativeClients, told: pb.Settings
    ) -> pb.Settings:
        subscription = told.subscription
        if len(subscription.subscriptions) > MAX_TOPICS:
            raise FrontRefusal(pb.BAD_REQUEST, f"a client names at most {MAX_TOPICS} topics")
        group = group_of(subscription.group)
        for each in subscription.subscriptions:
            filter_of(each.expression)
        topics = [await routed_topic(clients.cluster, each.topic) for each in subscription.subscriptions]
        self._producers.forget(session)  # a client is a producer or a consumer
        mode = self._groups.known(group) if not topics else await self._groups.require(group, clients.cluster, topics)
        if mode is None:  # it begins when the client names a topic
            return consumer_settings(told, call, fifo=False, max_attempts=ATTEMPTS)
        return consumer_settings(told, call, fifo=mode.by_key, max_attempts=mode.max_attempts)


def _waits_late(call: FrontCall, settings: pb.Settings) -> bool:
    """Return True if the client may get the settings before it waits for them."""
    return call.is_node_js and len(settings.publishing.topics) + len(settings.subscription.subscriptions) > 1


def _repeated(answer: Command, outbox: asyncio.Queue[Command]) -> list[asyncio.TimerHandle]:
    """Give the client an answer again at `REPEATS_S`, if it reads its commands."""

    def again() -> None:
        if not outbox.full():
            outbox.put_nowait(answer)

    return [asyncio.get_running_loop().call_later(after_s, again) for after_s in REPEATS_S]


async def _write(context: Any, outbox: asyncio.Queue[Command], sending: asyncio.Lock) -> None:
    """Send commands until the task is cancelled. `sending` is held while one is on its way. Raises TimeoutError if the
    client does not read."""
    while True:
        command = await outbox.get()
        async with sending, asyncio.timeout(STALLED_S):
            await context.write(command)
        outbox.task_done()

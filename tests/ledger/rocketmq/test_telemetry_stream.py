"""The telemetry stream of a RocketMQ client: how it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from ledger.broker.access.callers import ANYBODY
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.outgoing_message import FrontLimits
from ledger.rocketmq.sessions import FrontSessions
from ledger.rocketmq.telemetry import FrontTelemetry
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

CALL = FrontCall("client", "JAVA", ANYBODY, is_tls=False, peer="ipv4:127.0.0.1:1", left_s=60.0)
REFUSED = service_pb2.TelemetryCommand(settings=pb.Settings())


class AbortedError(Exception):
    pass


class Client:
    """The client of a stream, as its node sees it. None ends the stream."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[service_pb2.TelemetryCommand | None] = asyncio.Queue()
        self.commands: list[service_pb2.TelemetryCommand] = []
        self.may_send = asyncio.Event()
        self.is_sending = False

    async def read(self) -> Any:
        return await self.told.get() or aio.EOF

    async def write(self, command: service_pb2.TelemetryCommand) -> None:
        self.is_sending = True
        await self.may_send.wait()  # if this is cancelled, gRPC goes on sending
        self.is_sending = False
        self.commands.append(command)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert not self.is_sending
        raise AbortedError(code)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("last", [None, REFUSED], ids=["end", "refused settings"])
async def test_a_stream_ends_when_its_command_is_sent(last: service_pb2.TelemetryCommand | None) -> None:
    sessions, client, unused = FrontSessions(lambda: 1.0), Client(), cast(Any, SimpleNamespace())
    telemetry = FrontTelemetry(sessions, unused, cast(FrontLimits, unused))
    stream = asyncio.create_task(telemetry.serve(CALL, unused, cast(Any, client)))
    await settled()
    assert sessions.seen(CALL).command(service_pb2.TelemetryCommand())
    await settled()
    client.told.put_nowait(last)
    await settled()
    assert client.is_sending
    assert not stream.done()
    client.may_send.set()
    (ended,) = await asyncio.gather(stream, return_exceptions=True)
    assert isinstance(ended, AbortedError) == (last is not None)
    assert len(client.commands) == 1

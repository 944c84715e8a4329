"""Telemetry streams of RocketMQ's protocol that never end, or that the client does not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import grpc
from grpc import aio

from ledger.rocketmq.telemetry import MAX_SETTINGS_BYTES
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from raft.transport.streams import heed_cancellation
from tests.cluster.rocketmq_stubs import producer_settings, resource
from tests.fuzz.attack import BROKEN_STREAM
from tests.fuzz.callers import Caller
from tests.fuzz.defects import Defect

_PATH = "/apache.rocketmq.v2.MessagingService/Telemetry"
# Streams at the same time, and how long one lives.
_STREAMS = 60
_STREAM_S = 4.0
# What the allocator of a node may keep of them: a command and an answer of each stream.
KEPT_BYTES = 2 * _STREAMS * MAX_SETTINGS_BYTES
_SETTINGS = producer_settings(*["prey"] * 200)
_LARGE = pb.Settings(
    client_type=pb.PRODUCER,
    publishing=pb.Publishing(topics=[pb.Resource(name="prey", resource_namespace="x" * 200_000)]),
)
_HUGE = pb.Settings(publishing=pb.Publishing(topics=[resource("x" * 100_000)] * 10))
_STACK = service_pb2.TelemetryCommand(
    thread_stack_trace=service_pb2.ThreadStackTrace(nonce="n", thread_stack_trace="x")
)
# What one stream sends again and again.
_COMMANDS = [
    *(service_pb2.TelemetryCommand(settings=settings).SerializeToString() for settings in (_SETTINGS, _LARGE, _HUGE)),
    _STACK.SerializeToString(),
    b"",
]


class TelemetryAttack:
    """The streams of some callers of one cluster. `run` attacks until it is cancelled."""

    def __init__(self, cluster: str, callers: Sequence[Caller]) -> None:
        self._cluster = cluster
        self._callers = callers
        self.ended: Counter[str] = Counter()
        self.defects: deque[Defect] = deque(maxlen=20)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, caller, command in zip(range(_STREAMS), cycle(self._callers), cycle(_COMMANDS), strict=False):
                group.create_task(self._open_again(caller, number, command))

    async def _open_again(self, caller: Caller, number: int, command: bytes) -> None:
        while True:
            place = number % len(caller)
            method: Any = caller.channel(place).stream_stream(_PATH)
            stream = method(timeout=_STREAM_S, metadata=caller.metadata(place))
            status, text = await _flooded(stream, command, reads=number % 2 == 0)
            heed_cancellation()
            self.ended[f"telemetry of the {caller.name}: {status}"] += 1
            is_defect = status in (grpc.StatusCode.UNKNOWN.name, grpc.StatusCode.INTERNAL.name)
            if is_defect and text != BROKEN_STREAM:
                self.defects.append(Defect(self._cluster, caller.name, _PATH, (command.hex()[:200],), status, text))


async def _flooded(stream: Any, command: bytes, *, reads: bool) -> tuple[str, str]:
    """Send a command until the stream ends, and return how it ended. Without `reads`, read nothing."""
    reader = asyncio.ensure_future(_read_all(stream)) if reads else None
    with contextlib.suppress(asyncio.InvalidStateError, aio.InternalError, aio.AioRpcError):
        while not stream.done():
            await stream.write(command)
    if reader is not None:
        await asyncio.gather(reader, return_exceptions=True)
    return (await stream.code()).name, await stream.details() or ""


async def _read_all(stream: Any) -> None:
    while await stream.read() is not aio.EOF:
        pass

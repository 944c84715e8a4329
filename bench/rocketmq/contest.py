"""Measures one client against one system: sends with 1, 64 and 256 in flight, and receives with 1 and 20 consumers.

Every measurement has a new topic and a new client process, and begins with a warm-up that is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.rocketmq.systems import LedgermqSystem, System, cpu_s
from ledgermq import AsyncProducer
from tests.rocketmq.programs import ClientProgram, ProgramError, running

MESSAGE_BYTES = 1024
IN_FLIGHT = (1, 64, 256)
CONSUMERS = (1, 20)
SEND, RECEIVE, NATIVE = "send", "receive and ack", "native send"
# How many messages are sent before the receives, for each second that these last.
_PREPARED_PER_S = 4_000
_PREPARED_IN_FLIGHT = 256
# Apache's proxy learns of a new topic with a delay, and a system that was stopped must find its leader again.
_START_S = 60.0
_ANSWER_S = 300.0


@dataclass(frozen=True, slots=True)
class ContestRun:
    """One measurement. CPU times are those of all servers together, and of the client's process, for each message."""

    system: str
    client: str
    way: str
    # Messages in flight, or consumers.
    at_once: int
    messages: int
    per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float
    client_us: float
    errors: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class ClientContest:
    """Runs all measurements of one client against one system."""

    def __init__(self, system: System, language: str, label: str, seconds: float) -> None:
        """`label` makes names of topics unique. Each measurement lasts `seconds`."""
        self._system, self._language, self._seconds = system, language, seconds
        self._topic, self._group = f"contest-{label}", f"readers-{label}"

    async def measure(self, say: Callable[[ContestRun], None]) -> None:
        await asyncio.to_thread(self._system.prepare, self._topic, self._group)
        async with running(self._language) as program:
            await self._open(program)
            warm_s = self._seconds / 2
            await self._call(program, "flood", prefix="warm", in_flight=64, seconds=warm_s, **self._sent())
            for in_flight in IN_FLIGHT:
                fields = {"prefix": f"sent-{in_flight}", "in_flight": in_flight, "seconds": self._seconds}
                say(await self._measured(program, SEND, in_flight, "flood", **fields, **self._sent()))
            count = round(_PREPARED_PER_S * self._seconds)
            fields = {"prefix": "prepared", "in_flight": _PREPARED_IN_FLIGHT, "count": count}
            await self._call(program, "flood", **fields, **self._sent())
            for consumers in CONSUMERS:
                fields = {"consumers": consumers, "seconds": self._seconds, "client": "consumer"}
                say(await self._measured(program, RECEIVE, consumers, "drain", **fields))

    async def _open(self, program: ClientProgram) -> None:
        """Start a producer and a consumer, as soon as the servers know the topic and can take a message."""
        deadline = time.monotonic() + _START_S
        connection: dict[str, Any] = {"endpoints": self._system.endpoints, "timeout_s": 10}
        while True:
            try:
                await program.call("producer", name="producer", topics=[self._topic], **connection)
                await self._call(program, "send", client="producer", topic=self._topic, body="first")
                break
            except ProgramError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(1)
        subscribed: dict[str, Any] = {"group": self._group, "subscriptions": {self._topic: {}}}
        await program.call("simple", name="consumer", await_s=5, **subscribed, **connection)

    async def _measured(self, program: ClientProgram, way: str, at_once: int, do: str, **fields: Any) -> ContestRun:
        before = cpu_s(self._system)
        answer = await self._call(program, do, **fields)
        server_s, done = cpu_s(self._system) - before, max(1, answer["done"])
        return ContestRun(
            self._system.name,
            self._language,
            way,
            at_once,
            answer["done"],
            answer["done"] / max(answer["seconds"], 1e-9),
            answer["latencies_ms"]["p50"],
            answer["latencies_ms"]["p99"],
            server_s / done * 1e6,
            answer["cpu_s"] / done * 1e6,
            len(answer["errors"]),
        )

    def _sent(self) -> dict[str, Any]:
        return {"client": "producer", "topic": self._topic, "size": MESSAGE_BYTES}

    async def _call(self, program: ClientProgram, do: str, **fields: Any) -> dict[str, Any]:
        return await program.call(do, answer_s=_ANSWER_S, **fields)


async def native_send(system: LedgermqSystem, label: str, seconds: float) -> ContestRun:
    """Measure our native client with one send in flight, in this process."""
    topic = f"contest-{label}"
    await asyncio.to_thread(system.prepare, topic, f"readers-{label}")
    latencies_ms: list[float] = []
    async with AsyncProducer(system.bootstrap) as producer:
        body = bytes(MESSAGE_BYTES)
        for warm_s in (seconds / 2, seconds):
            latencies_ms.clear()
            before, client_before, deadline = cpu_s(system), time.process_time(), time.monotonic() + warm_s
            began = time.perf_counter()
            while time.monotonic() < deadline:
                sent = time.perf_counter()
                await producer.send(topic, body)
                latencies_ms.append((time.perf_counter() - sent) * 1e3)
            spent_s = time.perf_counter() - began
    latencies_ms.sort()
    done = len(latencies_ms)
    return ContestRun(
        system.name,
        "native",
        NATIVE,
        1,
        done,
        done / spent_s,
        latencies_ms[done // 2],
        latencies_ms[done * 99 // 100],
        (cpu_s(system) - before) / done * 1e6,
        (time.process_time() - client_before) / done * 1e6,
        0,
    )

"""Sends messages and receives them again with one client program: the steps that most contract tests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, Protocol

from tests.rocketmq.programs import ClientProgram, Told

# The shortest time that Apache's servers accept for a receive.
INVISIBLE_S = 10
_NAMES = count(1)


class Reached(Protocol):
    """What an exchange needs to know of the servers."""

    @property
    def endpoints(self) -> str: ...
    @property
    def settle_s(self) -> float: ...


class Exchange:
    """The clients of one test in one program. Names of clients are unique within the program."""

    def __init__(self, program: ClientProgram, target: Reached, **connection: Any) -> None:
        self.program, self._target = program, target
        self._connection = {"endpoints": target.endpoints, **connection}
        self._opened: list[str] = []

    async def __aenter__(self) -> Exchange:
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in reversed(self._opened):
            await self.program.call("close", client=name)

    async def producer(self, *topics: str, **fields: Any) -> str:
        return await self._open("producer", topics=topics, **fields)

    async def simple(self, topic: str, group: str, *more_topics: str, **fields: Any) -> str:
        name = await self._open("simple", group=group, **_subscribed((topic, *more_topics), fields))
        await asyncio.sleep(self._target.settle_s)
        return name

    async def push(self, topic: str, group: str, **fields: Any) -> str:
        return await self._open("push", group=group, **_subscribed((topic,), fields))

    async def send(self, producer: str, topic: str, body: str, **fields: Any) -> Told:
        return await self.program.call("send", client=producer, topic=topic, body=body, **fields)

    async def receive(self, consumer: str, invisible_s: int = INVISIBLE_S, most: int = 16) -> list[Told]:
        answer = await self.program.call("receive", client=consumer, max=most, invisible_s=invisible_s)
        return list(answer["messages"])

    async def ack(self, consumer: str, message: Told) -> None:
        await self.program.call("ack", client=consumer, handle=message["handle"])

    async def take(self, consumer: str, number: int, deadline_s: float = 30.0) -> list[Told]:
        """Receive and acknowledge until there are `number` messages. Fail if they do not come in time."""
        taken: list[Told] = []
        deadline = time.monotonic() + deadline_s
        while len(taken) < number:
            for message in await self.receive(consumer):
                await self.ack(consumer, message)
                taken.append(message)
            assert time.monotonic() < deadline, f"{self.program.language}: {len(taken)} of {number} messages: {taken}"
        return taken

    async def nothing_comes(self, consumer: str) -> None:
        """One receive, which waits for the consumer's long poll, brings no message."""
        found = await self.receive(consumer)
        assert not found, f"{self.program.language}: {found}"

    async def _open(self, kind: str, **fields: Any) -> str:
        name = f"{kind}-{next(_NAMES)}"
        await self.program.call(kind, name=name, **self._connection, **fields)
        self._opened.append(name)
        return name


def _subscribed(topics: Iterable[str], fields: dict[str, Any]) -> dict[str, Any]:
    """Move `tag` and `sql` into the subscriptions."""
    filtered = {name: fields.pop(name) for name in ("tag", "sql") if name in fields}
    return {"subscriptions": dict.fromkeys(topics, filtered), **fields}


def in_ms(seconds: float) -> int:
    """Return the wall clock time that is `seconds` from now, in ms."""
    return round((time.time() + seconds) * 1000)

"""Takes the commands of clients/README.md that the failover test needs, for the stand-in for Go's client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.cluster.rocketmq_stubs import producer_settings
from tests.cluster.waiter import until
from tests.rocketmq.go_stub import GoClient, GoProducer, GoPushConsumer, TaskStarter
from tests.rocketmq.programs import Told


class GoStub:
    """The stand-in. `tasks` starts a task."""

    language = "go"

    def __init__(self, tasks: TaskStarter) -> None:
        self._tasks = tasks
        self._clients: dict[str, GoClient] = {}
        self._consumed: dict[str, list[Told]] = {}

    async def call(self, do: str, *, answer_s: float = 0.0, **fields: Any) -> Told:
        answer: Told = await getattr(self, f"_do_{do}")(**fields)
        return answer

    def consumed(self, client: str) -> list[Told]:
        return self._consumed.get(client, [])

    async def wait_for(self, condition: Callable[[], Any], what: str, deadline_s: float) -> Any:
        return await until(condition, f"{self.language}: {what}", deadline_s=deadline_s)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _do_hello(self) -> Told:
        return {"language": self.language, "can": ["push", "tls", "credentials", "retries"]}

    async def _do_producer(self, name: str, topics: Sequence[str], **connection: Any) -> Told:
        await self._start(name, GoProducer(connection, producer_settings(*topics)), topics)
        return {}

    async def _do_push(self, name: str, group: str, subscriptions: Told, **connection: Any) -> Told:
        (topic,) = subscriptions
        found = self._consumed.setdefault(name, [])
        consumer = GoPushConsumer(
            connection, group, topic, lambda message: found.append({"body": message.body.decode()}), self._tasks
        )
        await self._start(name, consumer, [topic])
        self._tasks(consumer.scan())
        return {}

    async def _do_flood(self, client: str, topic: str, prefix: str, count: int, groups: int) -> Told:
        producer, failed = self._clients[client], {}
        assert isinstance(producer, GoProducer)
        for number in range(count):
            if why := await producer.send(topic, f"{prefix}-{number}", f"{prefix}-{number % groups}"):
                failed[number] = why
        return {"failed": list(failed), "errors": list(failed.values())}

    async def _start(self, name: str, client: GoClient, topics: Iterable[str]) -> None:
        self._clients[name] = client
        await client.start(topics)
        self._tasks(client.upkeep())


@asynccontextmanager
async def running_go() -> AsyncIterator[GoStub]:
    """Run the stub within this process. An error in one of its tasks cancels the test."""
    started: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        stub = GoStub(lambda work: started.append(group.create_task(work)))
        try:
            yield stub
        finally:
            for task in started:
                task.cancel()
            await stub.close()

"""Producers and consumers of all languages that go on while each node of a cluster is killed in turn.

What a client can hide from its application, it must hide: sends are repeated by the client, and push consumers receive
and acknowledge again. A simple consumer tells its application that a receive was cut off, and the Rust client repeats
nothing; with those, only nothing may be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Protocol

from ledgermq import AsyncAdmin
from tests.rocketmq.go_program import running_go
from tests.rocketmq.programs import LANGUAGES, ProgramError, Told, missing, running
from tests.rocketmq.secured import GROUPS, TOPIC

# How many messages a producer sends before it looks whether the disturbances are over.
_ROUND = 40
# The message groups of one producer and round.
_GROUPS = 3
_PAUSE_S = 1.5
_ALL_THERE_S = 120.0


class Program(Protocol):
    """What a shop needs of a program around a client."""

    @property
    def language(self) -> str: ...
    async def call(self, do: str, *, answer_s: float = ..., **fields: Any) -> Told: ...
    def consumed(self, client: str) -> Sequence[Told]: ...
    async def wait_for(self, condition: Callable[[], Any], what: str, deadline_s: float) -> Any: ...


class Shop:
    """One program: a producer that sends until it is told to stop, and a consumer in a consumer group of its own."""

    def __init__(self, program: Program, can: Sequence[str]) -> None:
        self.program, self.can = program, can
        # The bodies that were acknowledged, in the order in which they were sent.
        self.acknowledged: list[str] = []
        self.errors: list[str] = []
        self.message_groups: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self.program.language

    async def open(self, addresses: Sequence[str], **connection: Any) -> None:
        # The Node.js client cannot start from several addresses, and the Rust client does not try the next one. The one
        # for Python cannot use several over TLS, and sends all messages of a message group to one node then.
        is_alone = self.name == "python" and connection.get("tls", False)
        self.message_groups = {} if is_alone else {"groups": _GROUPS}
        begins_alone = is_alone or self.name in ("node", "rust")
        connection["endpoints"] = addresses[0] if begins_alone else ";".join(addresses)
        consumer = {"subscriptions": {TOPIC: {}}, "group": group_of(self.name), **connection}
        await self._started("producer", name="producer", topics=[TOPIC], **connection)
        await self._started("push" if "push" in self.can else "simple", name="consumer", **consumer)

    async def _started(self, do: str, **fields: Any) -> None:
        """Start a client. Python's client gives up if it has no settings after 10 s, and all clients start at the same
        time here. So on a busy machine a start is tried again. No node is killed yet."""
        for tries_left in (2, 1, 0):
            try:
                await self.program.call(do, **fields)
                return
            except ProgramError:
                if not tries_left:
                    raise

    async def send_until(self, stop: asyncio.Event) -> None:
        turn = 0
        while not stop.is_set():
            prefix = f"{self.name}-{turn}"
            answer = await self._call("flood", prefix=prefix, topic=TOPIC, count=_ROUND, **self.message_groups)
            failed = set(answer["failed"])
            self.acknowledged += [f"{prefix}-{number}" for number in range(_ROUND) if number not in failed]
            self.errors += answer["errors"]
            turn += 1

    async def receive_until(self, stop: asyncio.Event) -> None:
        """Drive a simple consumer. A push consumer receives by itself."""
        while "push" not in self.can and not stop.is_set():
            await self.program.call("drain", client="consumer", seconds=2, invisible_s=10, events=True)

    def handled(self) -> list[str]:
        """Return the bodies that the consumer handled, each at its first time."""
        return list(dict.fromkeys(found["body"] for found in self.program.consumed("consumer")))

    def has_handled(self, bodies: set[str]) -> bool:
        return bodies <= set(self.handled())

    async def _call(self, do: str, **fields: Any) -> Told:
        return await self.program.call(do, client="producer", answer_s=180, **fields)


@asynccontextmanager
async def opened_shops(
    admin: AsyncAdmin, addresses: Sequence[str], trust: Mapping[str, str] | None = None, **connection: Any
) -> AsyncIterator[list[Shop]]:
    """Open a shop with each client that is built, and with the stand-in for Go's client. `trust` is the environment of
    the programs."""
    async with AsyncExitStack() as stack:
        programs: list[Program] = [await stack.enter_async_context(running_go())]
        programs += [await stack.enter_async_context(running(each, trust)) for each in LANGUAGES if not missing(each)]
        shops = []
        for program in programs:
            await admin.create_consumer_group(group_of(program.language), order="key", max_attempts=100)
            shop = Shop(program, (await program.call("hello"))["can"])
            await shop.open(addresses, **connection)
            shops.append(shop)
        yield shops


def group_of(language: str) -> str:
    """Return the consumer group of a shop."""
    return f"{GROUPS}{language}"


async def trade(
    shops: Sequence[Shop],
    nodes: Sequence[int],
    kill: Callable[[int], Awaitable[object]],
    restart: Callable[[int], Awaitable[object]],
) -> None:
    """Let all shops send and receive while each node is killed and started in turn. Then wait until each consumer has
    handled all that was acknowledged.

    Before the next node is killed, each client has reached the restarted node again: a channel of gRPC that was refused
    for D seconds connects again within about 0.7 D + 1.2 seconds. The client for Python knows one address for each
    queue over TLS, so it cannot hide that two nodes refuse it."""
    stop_sending, stop_receiving = asyncio.Event(), asyncio.Event()
    senders = [asyncio.create_task(shop.send_until(stop_sending)) for shop in shops]
    receivers = [asyncio.create_task(shop.receive_until(stop_receiving)) for shop in shops]
    for node in nodes:
        await asyncio.sleep(_PAUSE_S)
        killed_at = time.monotonic()
        await kill(node)
        await asyncio.sleep(_PAUSE_S)
        await restart(node)
        await asyncio.sleep(time.monotonic() - killed_at)
    await asyncio.sleep(_PAUSE_S)
    stop_sending.set()
    await asyncio.gather(*senders)

    sent = {body for shop in shops for body in shop.acknowledged}
    for shop in shops:
        await shop.program.wait_for(
            partial(shop.has_handled, sent),
            f"each of the {len(sent)} acknowledged messages is handled, {len(shop.handled())} are",
            _ALL_THERE_S,
        )
    stop_receiving.set()
    await asyncio.gather(*receivers)


def assert_in_order(shops: Sequence[Shop]) -> None:
    """In each message group, first deliveries are in the order of the sends, at each consumer."""
    ordered = {shop.name for shop in shops if shop.message_groups}
    for shop in shops:
        groups: dict[str, list[int]] = {}
        for body in shop.handled():
            language, turn, number = body.split("-")
            if language in ordered:
                groups.setdefault(f"{language}-{turn}-{int(number) % _GROUPS}", []).append(int(number))
        for name, numbers in groups.items():
            assert numbers == sorted(numbers), f"{shop.name}: message group {name} was handled as {numbers}"

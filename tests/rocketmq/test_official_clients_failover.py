"""Nodes are killed while official clients of all languages send, receive and acknowledge.

What a client can hide from its application, it must hide: sends are repeated by the client, and push consumers receive
and acknowledge again. A simple consumer tells its application that a receive was cut off, and the Rust client repeats
nothing; with those, only nothing may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from ledgermq import AsyncAdmin
from ledgermq.testing import AsyncCluster, Cluster
from tests.rocketmq.programs import LANGUAGES, ClientProgram, Told, missing, running

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]

_TOPIC = "orders"
# How many messages a producer sends before it looks whether the disturbances are over.
_ROUND = 40
# The message groups of one producer and round.
_GROUPS = 3
_PAUSE_S = 1.5
_ALL_THERE_S = 120.0


class Shop:
    """One program: a producer that sends until it is told to stop, and a consumer in a consumer group of its own."""

    def __init__(self, program: ClientProgram, can: Sequence[str]) -> None:
        self.program, self.can = program, can
        # The bodies that were acknowledged, in the order in which they were sent.
        self.acknowledged: list[str] = []
        self.errors: list[str] = []

    @property
    def name(self) -> str:
        return self.program.language

    async def open(self, cluster: AsyncCluster, one_address: str, all_addresses: str) -> None:
        # The Node.js client cannot start from several addresses, and the Rust client does not try the next one.
        endpoints = one_address if self.name in ("node", "rust") else all_addresses
        connection: dict[str, Any] = {
            "endpoints": endpoints,
            "subscriptions": {_TOPIC: {}},
            "group": f"readers-{self.name}",
        }
        await self.program.call("producer", name="producer", endpoints=endpoints, topics=[_TOPIC])
        await self.program.call("push" if "push" in self.can else "simple", name="consumer", **connection)

    async def send_until(self, stop: asyncio.Event) -> None:
        turn = 0
        while not stop.is_set():
            prefix = f"{self.name}-{turn}"
            answer = await self._call("flood", prefix=prefix, topic=_TOPIC, count=_ROUND, groups=_GROUPS)
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


async def test_clients_go_on_when_each_node_is_killed_in_turn() -> None:
    languages = [language for language in LANGUAGES if not missing(language)]
    if not languages:
        pytest.skip("no client program is built: run `make rocketmq-clients`")
    async with Cluster(nodes=3, shards=2, rocketmq=True) as cluster, AsyncExitStack() as stack:
        await cluster.create_topic(_TOPIC, queues=4)
        shops = []
        for language in languages:
            program = await stack.enter_async_context(running(language))
            shop = Shop(program, (await program.call("hello"))["can"])
            async with AsyncAdmin(cluster.bootstrap) as admin:
                await admin.create_consumer_group(f"readers-{language}", order="key", max_attempts=100)
            addresses = [cluster.rocketmq_address(node) for node in cluster.nodes]
            await shop.open(cluster, addresses[0], ";".join(addresses))
            shops.append(shop)

        stop_sending, stop_receiving = asyncio.Event(), asyncio.Event()
        senders = [asyncio.create_task(shop.send_until(stop_sending)) for shop in shops]
        receivers = [asyncio.create_task(shop.receive_until(stop_receiving)) for shop in shops]
        for node in cluster.nodes:
            await asyncio.sleep(_PAUSE_S)
            await cluster.kill(node)
            await asyncio.sleep(_PAUSE_S)
            await cluster.restart(node)
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

        for shop in shops:
            assert "retries" not in shop.can or shop.errors == [], f"{shop.name}: {shop.errors}"
            assert shop.acknowledged
            _assert_in_order(shop)


def _assert_in_order(shop: Shop) -> None:
    """In each message group, first deliveries are in the order of the sends."""
    groups: dict[str, list[int]] = {}
    for body in shop.handled():
        prefix, _, number = body.rpartition("-")
        groups.setdefault(f"{prefix}-{int(number) % _GROUPS}", []).append(int(number))
    for name, numbers in groups.items():
        assert numbers == sorted(numbers), f"{shop.name}: message group {name} was handled as {numbers}"

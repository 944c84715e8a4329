"""The servers that the contract tests run against: Apache's own, as the reference, or ours.

By default the tests start a ledgermq cluster of three nodes. With the variable APACHE_ROCKETMQ, they use Apache's
servers, which `python -m bench.rocketmq.apache` runs; the variable holds the line that this command prints.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Protocol

from bench.rocketmq.apache import ApacheCluster, Kind
from ledgermq import AsyncAdmin
from ledgermq.testing import AsyncCluster, Cluster

APACHE = "APACHE_ROCKETMQ"
# The proxy learns of a new topic after some seconds.
_APACHE_LEARNS_S = 1.0
_QUEUES = 4


class Target(Protocol):
    """Servers with the RocketMQ protocol. Each topic and each group has a new name."""

    # The address that clients start from.
    endpoints: str
    # How long a consumer must exist before its first receive succeeds.
    settle_s: float

    async def topic(self, kind: Kind = "NORMAL") -> str: ...

    async def group(self, *, ordered: bool = False, retries: int = 16) -> str:
        """Return the name of a new consumer group. A message that fails is delivered again `retries` times."""
        ...


class ApacheTarget:
    # Apache answers 50001 to a receive until it has handled the client's settings.
    settle_s = 2.0

    def __init__(self, cluster: ApacheCluster) -> None:
        self._cluster = cluster
        self.endpoints = cluster.endpoints
        self._numbers = count(1)

    async def topic(self, kind: Kind = "NORMAL") -> str:
        name = self._name("topic")
        await asyncio.to_thread(self._cluster.make_topic, name, kind)
        await asyncio.sleep(_APACHE_LEARNS_S)
        return name

    async def group(self, *, ordered: bool = False, retries: int = 16) -> str:
        name = self._name("group")
        await asyncio.to_thread(self._cluster.make_group, name, ordered=ordered, retries=retries)
        return name

    def _name(self, what: str) -> str:
        return f"{what}-{os.getpid()}-{next(self._numbers)}"


class LedgermqTarget:
    settle_s = 0.0

    def __init__(self, cluster: AsyncCluster) -> None:
        self._cluster = cluster
        self.endpoints = cluster.rocketmq_address(cluster.nodes[0])
        self._numbers = count(1)

    async def topic(self, kind: Kind = "NORMAL") -> str:
        name = f"topic-{next(self._numbers)}"
        async with AsyncAdmin(self._cluster.bootstrap) as admin:
            await admin.create_topic(name, _QUEUES, type=kind.lower())
        return name

    async def group(self, *, ordered: bool = False, retries: int = 16) -> str:
        name = f"group-{next(self._numbers)}"
        async with AsyncAdmin(self._cluster.bootstrap) as admin:
            await admin.create_consumer_group(name, order="key" if ordered else None, max_attempts=retries + 1)
        return name


@asynccontextmanager
async def running_target() -> AsyncIterator[Target]:
    if told := os.environ.get(APACHE):
        apache = json.loads(told)
        yield ApacheTarget(ApacheCluster(apache["endpoints"], tuple(apache["brokers"])))
        return
    async with Cluster(nodes=3, shards=2, rocketmq=True) as cluster:
        yield LedgermqTarget(cluster)

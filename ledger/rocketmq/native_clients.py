"""The native clients by which the front acts for its callers.

The front does for a RocketMQ client what a native client does: it batches sends, follows leaders, and repeats requests
after a failover. All RocketMQ clients of one caller share one producer and one set of connections, so sends that arrive
in one turn share a batch. The clients of a caller that was silent for a while are closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ledger.broker.access.callers import Caller
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledger.client.producer.producer import AsyncProducer
from ledger.client.transactions.ends import EndSender
from ledger.errors import BusyError, UnavailableError

log = logging.getLogger("ledgermq.rocketmq")

MAX_CALLERS = 256
IDLE_S = 600.0
LOOK_S = 30.0
# How long a send is tried. RocketMQ's clients wait 3 s, and send the message again themselves.
SEND_MS = 10_000
REQUEST_MS = 10_000
BACKOFF_MS = 20

_Key = tuple[str, int, bytes]


@dataclass(eq=False, slots=True)
class NativeClients:
    """The native clients of one caller. A user with a new password or secret is another caller, with other clients."""

    caller: Caller
    producer: AsyncProducer[bytes]
    cluster: ClusterClient
    ends: EndSender
    used_s: float = 0.0

    async def close(self) -> None:
        await self.producer.stop()
        await self.cluster.close()


class NativePool:
    """The native clients of all callers. Run the method `run` as a task, and call `close` at the end."""

    def __init__(
        self,
        environment: Callable[[Caller], Environment],
        addresses: Callable[[], Iterable[str]],
        rng: random.Random,
        monotonic_s: Callable[[], float],
    ) -> None:
        """`environment(caller)` opens channels that act for a caller. `addresses()` returns those of the nodes."""
        self._environment = environment
        self._addresses = addresses
        self._rng = rng
        self._monotonic_s = monotonic_s
        self._clients: dict[_Key, asyncio.Task[NativeClients]] = {}
        self._is_closed = False

    async def of(self, caller: Caller) -> NativeClients:
        """Return the clients of a caller. Raises LedgerError."""
        key = (caller.user, caller.since, b"" if caller.token is None else caller.token.digest)
        starting = self._clients.get(key)
        if starting is None or (starting.done() and (starting.cancelled() or starting.exception() is not None)):
            if self._is_closed:
                raise UnavailableError("This node is stopping: ask another node.")
            if len(self._clients) >= MAX_CALLERS:
                raise BusyError(f"This node acts for {MAX_CALLERS} users of RocketMQ clients, which is the limit.")
            starting = self._clients[key] = asyncio.create_task(
                self._start(caller), name=f"native clients of {caller.user}"
            )
        clients = starting.result() if starting.done() else await asyncio.shield(starting)
        clients.used_s = self._monotonic_s()
        return clients

    def started(self) -> list[NativeClients]:
        """Return the clients that have started."""
        return [
            task.result()
            for task in self._clients.values()
            if task.done() and not task.cancelled() and task.exception() is None
        ]

    async def run(self) -> None:
        """Close the clients of silent callers, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = self._monotonic_s()
            for key, task in list(self._clients.items()):
                if not task.done():
                    continue
                if task.cancelled() or task.exception() is not None:
                    self._clients.pop(key, None)
                    continue
                clients = task.result()
                if now_s - clients.used_s > IDLE_S:
                    del self._clients[key]
                    await clients.close()

    async def close(self) -> None:
        self._is_closed = True
        tasks, self._clients = list(self._clients.values()), {}
        for task in tasks:
            if not task.done():
                task.cancel()
        for started in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(started, NativeClients):
                await started.close()

    async def _start(self, caller: Caller) -> NativeClients:
        environment, addresses = self._environment(caller), [*self._addresses()]
        producer: AsyncProducer[bytes] = within(environment, AsyncProducer)(
            addresses,
            client_id="rocketmq",
            delivery_timeout_ms=SEND_MS,
            request_timeout_ms=REQUEST_MS,
            rng=self._rng,
        )
        cluster = ClusterClient(
            addresses,
            client_id="rocketmq",
            request_timeout_ms=REQUEST_MS,
            retry_backoff_ms=BACKOFF_MS,
            rng=self._rng,
            environment=environment,
        )
        await cluster.start()
        try:
            await producer.start()
        except BaseException:
            await cluster.close()
            raise
        return NativeClients(caller, producer, cluster, EndSender(cluster, SEND_MS), self._monotonic_s())

"""The front for RocketMQ's clients on one node: all parts, connected."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ledger.broker.access.callers import Caller
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.client.connection.environment import Environment
from ledger.rocketmq.acknowledging import FrontAcknowledging
from ledger.rocketmq.calls import Prove
from ledger.rocketmq.groups import FrontGroups
from ledger.rocketmq.leases import FrontLeases
from ledger.rocketmq.native_clients import NativePool
from ledger.rocketmq.orphan_checks import OrphanChecks
from ledger.rocketmq.outgoing_message import FrontLimits
from ledger.rocketmq.producers import TopicProducers
from ledger.rocketmq.pulling import FrontPulling
from ledger.rocketmq.receiving import FrontReceiving
from ledger.rocketmq.sending import FrontSending
from ledger.rocketmq.sessions import FrontSessions
from ledger.rocketmq.telemetry import FrontTelemetry

log = logging.getLogger("ledgermq.rocketmq")

LOOK_S = 10.0
# After a defect, work begins again after this time.
AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class FrontRuntime:
    """What the front gets of its node: clocks, chance, the addresses of the nodes, the proof of callers, the check
    whether a proven caller still counts, and the environment of the native clients that act for a caller."""

    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    rng: random.Random
    addresses: Callable[[], Iterable[str]]
    prove: Prove
    # Raises LedgerError.
    check: Callable[[Caller], None]
    environment: Callable[[Caller], Environment]
    lookup: GroupLookup


class RocketmqFront:
    """Runs from the start of `run` to `close`."""

    def __init__(self, runtime: FrontRuntime, limits: FrontLimits) -> None:
        self.prove = runtime.prove
        # How many requests were refused, by method and code.
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.pool = NativePool(runtime.environment, runtime.addresses, runtime.rng, runtime.monotonic_s)
        self.sessions = FrontSessions(runtime.monotonic_s)
        self.producers = TopicProducers(self.sessions)
        self.groups = FrontGroups(runtime.lookup)
        self.leases = FrontLeases(self.sessions, self.pool.of, runtime.monotonic_s)
        self.acknowledging = FrontAcknowledging(self.leases)
        self.receiving = FrontReceiving(
            self.groups, self.leases, runtime.now_ms, runtime.monotonic_s, lambda: runtime.rng.getrandbits(64)
        )
        self.sessions.on_end.append(self.receiving.end)
        self.sessions.on_gone.append(self.receiving.end)
        self.pulling = FrontPulling(self.groups)
        self.checks = OrphanChecks(self.producers, self.pool.started, f"rocketmq-{runtime.rng.getrandbits(64):016x}")
        self.sending = FrontSending(limits, runtime.now_ms)
        self.telemetry = FrontTelemetry(self.sessions, self.producers, self.groups, limits, runtime.check)

    @property
    def clients(self) -> int:
        """The number of clients that were heard of lately."""
        return len(self.sessions)

    @property
    def waiting_receives(self) -> int:
        return self.receiving.polls.taken

    @property
    def renewed_leases(self) -> int:
        """The number of leases that this node extends."""
        return self.leases.renewed

    async def run(self) -> None:
        """Do the work that no call does, until the task is cancelled."""
        works = (self.pool.run, self.leases.run, self.receiving.run, self.checks.run, self._forget)
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(_kept_up(work))

    async def close(self) -> None:
        await self.checks.close()
        await self.receiving.close()
        await self.leases.close()
        await self.pool.close()

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.sessions.forget_silent()


async def _kept_up(work: Callable[[], Awaitable[None]]) -> None:
    """Run work that never ends. A defect in it is told, and does not end the node, which also serves native clients."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("a task of the front for RocketMQ clients failed, a defect of ledgermq; it starts again")
        await asyncio.sleep(AGAIN_S)

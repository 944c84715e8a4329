"""Whoever operates the simulated cluster: changes its members by the admin client, and has its log begin later.

    a stranger ──remove──> gone ──add (wiped, or new)──> learner ──promote──> voter ──remove──> gone

The one idea: an operator is a client as any other, so what it asks for takes the whole way of `ledgermq cluster ...`,
may be refused, may be lost, and may come about all the same. Only what it was told to be done is counted.

It must not know faults or schedules.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from chaos.sim.loop import SimLoop
from chaos.sim.node import StackNode
from chaos.sim.stack_roster import Roster
from chaos.sim.targets import leader_of
from chaos.sim.workload import ClientProcess
from ledger import AsyncAdmin
from ledger.broker.log_trim import LogTrim
from ledger.errors import LedgerError, LogHeldError

LEAST_VOTERS = 2
TIMEOUT_MS = 10_000
HOLDS = 0.3
"""How likely the log is held before it is trimmed."""
LONGEST_HOLD_MS = 10_000
PUT_AWAY_S = 20.0
"""How long a node that was removed goes on running: it must not disturb the others."""


class Operator:
    """`happened`: counted there is what came about."""

    def __init__(
        self,
        loop: SimLoop,
        nodes: Sequence[StackNode],
        roster: Roster,
        process: ClientProcess,
        addresses: Mapping[int, str],
        most: int,
        happened: Counter[str],
    ) -> None:
        """`most`: voters that the cluster may have."""
        self.busy = False
        """Whether a step is under way."""
        self._trims = False
        """Whether a trim is."""
        self._loop = loop
        self._nodes = nodes
        self._roster = roster
        self._process = process
        self._addresses = addresses
        self._most = most
        self._happened = happened
        self._over = False

    def end(self) -> None:
        """Begins nothing any more."""
        self._over = True

    # -- members

    def change(self, random: Random) -> None:
        """Takes the next step, if none is under way."""
        if not self.busy:
            self.busy = True
            life = self._process.life
            life.deliver(lambda: life.create_task(self._change(random)))

    async def _change(self, random: Random) -> None:
        admin = self._admin(random)
        # Refused, or nobody knows: the next step begins with what is so then.
        with contextlib.suppress(LedgerError):
            async with admin:
                self._happened["reconfigure"] += await self._step(admin, random)
        self.busy = False

    async def _step(self, admin: AsyncAdmin, random: Random) -> bool:
        """Whether there was one to take, and it came about."""
        configuration, strangers = self._roster.configuration, self._roster.strangers
        if configuration is None or self._over:
            return False
        voters, learners = sorted(configuration.voters), sorted(configuration.learners)
        gone = [node for node in self._nodes if node.node not in configuration.members]
        if strangers:
            await self._remove(admin, strangers[0])
        elif learners:
            await admin.promote_node(random.choice(learners), timeout_ms=TIMEOUT_MS)
        elif gone and len(voters) < self._most and (len(voters) <= LEAST_VOTERS or random.random() < 0.6):
            await self._add(admin, random.choice(gone), promote=random.random() < 0.7)
        elif len(voters) > LEAST_VOTERS:
            await self._remove(admin, self._nodes[random.choice(voters) - 1])
        else:
            return False
        return True

    async def _remove(self, admin: AsyncAdmin, node: StackNode) -> None:
        incarnation = node.incarnation
        await admin.remove_node(node.node, timeout_ms=TIMEOUT_MS)
        self._loop.call_later(PUT_AWAY_S, self._put_away, node, incarnation)

    def _put_away(self, node: StackNode, incarnation: bytes) -> None:
        if node.incarnation == incarnation and not self._roster.is_member(node.node):
            node.put_away()

    async def _add(self, admin: AsyncAdmin, node: StackNode, *, promote: bool) -> None:
        members = (await admin.members(timeout_ms=TIMEOUT_MS)).members
        if self._over or any(member.node == node.node for member in members):
            return  # only what is gone for good may be wiped
        if not (node.settings.join and node.is_empty):
            node.join()
        await admin.add_node(node.node, self._addresses[node.node], promote=promote, timeout_ms=TIMEOUT_MS)

    # -- the log start

    def move_log_start(self, random: Random) -> None:
        """Has the log begin behind one of the bases that the leader has kept, or holds it for a while, if nothing of
        that is under way."""
        leader = leader_of(self._nodes)
        if self._trims or self._over or leader is None or leader.replica is None:
            return
        candidates = LogTrim(leader.replica).candidates()
        if candidates:
            self._trims = True
            to = random.choice(candidates)
            life, keep_bytes = self._process.life, leader.replica.log.end - to.position
            life.deliver(lambda: life.create_task(self._trim(random, keep_bytes)))

    async def _trim(self, random: Random, keep_bytes: int) -> None:
        with contextlib.suppress(LedgerError):
            async with self._admin(random) as admin:
                if random.random() < HOLDS:
                    await self._hold(admin, random, keep_bytes)
                await admin.trim_log(keep_bytes=keep_bytes, timeout_ms=TIMEOUT_MS)
        self._trims = False

    async def _hold(self, admin: AsyncAdmin, random: Random, keep_bytes: int) -> None:
        """Until it is released, or has expired. What moves the log's start meanwhile is a violation."""
        ttl_ms = random.randint(1_000, LONGEST_HOLD_MS)
        await admin.hold_log("reader", ttl_ms=ttl_ms, timeout_ms=TIMEOUT_MS)
        with contextlib.suppress(LogHeldError):
            await admin.trim_log(keep_bytes=keep_bytes, timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(random.random() * 2 * ttl_ms / 1000)
        await admin.release_log("reader", timeout_ms=TIMEOUT_MS)

    def _admin(self, random: Random) -> AsyncAdmin:
        bootstrap = [self._addresses[node.node] for node in self._roster.present]
        environment = self._process.environment
        return AsyncAdmin(bootstrap, request_timeout_ms=TIMEOUT_MS, rng=random, _environment=environment)

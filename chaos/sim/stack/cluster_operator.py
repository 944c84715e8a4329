"""Simulates the operator of the cluster. The operator changes members, pins leaders, adds shards and queues, and trims
logs.

    A change of members consists of three kinds of steps. The operator removes a voter or a node that has lost its
    disk, adds a new or wiped node as a learner, or promotes a learner to a voter.

The operator uses the real admin client, so its requests take the same path as the requests of `ledgermq cluster ...`.
A request of the operator can be refused, can be lost, or can be carried out without a response. Only requests that the
cluster has confirmed are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.sim.engine.loop import SimLoop
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.roster import Roster, Rosters
from chaos.sim.stack.workload import ClientProcess, Workload
from ledger.broker.retention.log_trim import LogTrim
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.errors import LedgerError, LogHeldError
from ledger.topics import TOPICS_SHARD

LEAST_VOTERS = 2
# Largest number of queues of one topic.
MOST_QUEUES = 8
# Probability that a change of members concerns a single shard, if there are several shards.
ONE_SHARD = 0.4
TIMEOUT_MS = 10_000
# Probability that the operator holds the log before it trims it.
HOLDS = 0.3
LONGEST_HOLD_MS = 10_000
# Probability that the operator removes a pin, instead of pinning a voter.
UNPINS = 0.25
# How long a removed node keeps running, in seconds. It must not disturb the other nodes.
PUT_AWAY_S = 20.0


@dataclass(frozen=True, slots=True)
class OperatedCluster:
    """Holds the nodes, rosters, workload and addresses of the simulated cluster that the operator changes."""

    nodes: Sequence[StackNode]
    rosters: Rosters
    workload: Workload
    # Node id -> its address.
    addresses: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Limits how many voters and how many shards the operator creates."""

    voters: int
    shards: int


class SimOperator:
    """Simulates the operator as one client process. Actions that the cluster confirmed are counted in `happened`."""

    def __init__(
        self,
        loop: SimLoop,
        process: ClientProcess,
        cluster: OperatedCluster,
        limits: ClusterLimits,
        happened: Counter[str],
    ) -> None:
        # Whether a change of members or shards is in progress.
        self.busy = False
        # Whether a trim is in progress.
        self._trims = False
        self._loop = loop
        self.process = process
        self._nodes = cluster.nodes
        self._rosters = cluster.rosters
        self._workload = cluster.workload
        self._addresses = cluster.addresses
        self._limits = limits
        self._happened = happened
        self._over = False

    def end(self) -> None:
        """Stop starting new actions of the operator."""
        self._over = True

    # -- members

    def change(self, shard: int, random: Random) -> None:
        """Begin the next step of a change of members, unless another step is in progress. The change of members
        concerns the whole cluster or one shard."""
        self._begin(lambda admin: self._step(admin, shard, random), "reconfigure", random)

    def _begin(self, step: Callable[[AsyncAdmin], Awaitable[bool]], kind: str, random: Random) -> None:
        if not self.busy:
            self.busy = True
            life = self.process.life
            life.deliver(lambda: life.create_task(self._take(step, kind, random)))

    async def _take(self, step: Callable[[AsyncAdmin], Awaitable[bool]], kind: str, random: Random) -> None:
        """Run one step of the operator, and count the step if the cluster confirmed the step."""
        admin = self.admin(random)
        # A refused or unconfirmed step is not repeated: the next step starts from the current configuration.
        with contextlib.suppress(LedgerError):
            async with admin:
                self._happened[kind] += await step(admin)
        self.busy = False

    async def _step(self, admin: AsyncAdmin, shard: int, random: Random) -> bool:
        configuration, strangers = self._rosters.first.configuration, self._strangers()
        has_begun = self._rosters.are_complete and all(roster.is_begun for roster in self._rosters)
        if configuration is None or self._over or not has_begun:
            return False
        if not strangers and shard != TOPICS_SHARD and random.random() < ONE_SHARD:
            return await self._step_of_one(admin, self._rosters.of(shard), random)
        voters, learners = sorted(configuration.voters), sorted(configuration.learners)
        gone = [node for node in self._nodes if not any(node in roster.named for roster in self._rosters)]
        if strangers:
            await self._remove(admin, strangers[0])
        elif learners:
            await admin.promote_node(random.choice(learners), timeout_ms=TIMEOUT_MS)
        elif gone and len(voters) < self._limits.voters and (len(voters) <= LEAST_VOTERS or random.random() < 0.6):
            await self._add(admin, random.choice(gone), promote=random.random() < 0.7)
        elif len(voters) > LEAST_VOTERS:
            await self._remove(admin, self._nodes[random.choice(voters) - 1])
        else:
            return False
        return True

    def _strangers(self) -> list[StackNode]:
        return next((roster.strangers for roster in self._rosters if roster.strangers), [])

    async def _step_of_one(self, admin: AsyncAdmin, roster: Roster, random: Random) -> bool:
        """Add a member of the cluster to one shard, or remove a member from one shard. A member that is removed
        from one shard remains a member of the cluster."""
        configuration, cluster = roster.configuration, self._rosters.first.configuration
        assert configuration is not None
        assert cluster is not None
        voters, learners = sorted(configuration.voters), sorted(configuration.learners)
        others = sorted({*cluster.voters} - {*configuration.members})
        if learners:
            await admin.promote_node(random.choice(learners), shard=roster.shard, timeout_ms=TIMEOUT_MS)
        elif others and (len(voters) <= LEAST_VOTERS or random.random() < 0.6):
            node, promote = random.choice(others), random.random() < 0.7
            await admin.add_node(
                node, self._addresses[node], shard=roster.shard, promote=promote, timeout_ms=TIMEOUT_MS
            )
        elif len(voters) > LEAST_VOTERS:
            await admin.remove_node(random.choice(voters), shard=roster.shard, force=True, timeout_ms=TIMEOUT_MS)
        else:
            return False
        return True

    async def _remove(self, admin: AsyncAdmin, node: StackNode) -> None:
        incarnation = node.incarnation
        await admin.remove_node(node.node, force=True, timeout_ms=TIMEOUT_MS)
        self._loop.call_later(PUT_AWAY_S, self._put_away, node, incarnation)

    def _put_away(self, node: StackNode, incarnation: bytes) -> None:
        if node.incarnation == incarnation and not self._rosters.first.is_member(node.node):
            node.put_away()

    async def _add(self, admin: AsyncAdmin, node: StackNode, *, promote: bool) -> None:
        for shard in self._rosters.numbers:
            members = (await admin.members(shard=shard, timeout_ms=TIMEOUT_MS)).members
            if self._over or any(member.node == node.node for member in members):
                return  # a node may be wiped only when it is removed from every shard for good
        if not (node.settings.join and node.is_empty):
            node.join()
        await admin.add_node(node.node, self._addresses[node.node], promote=promote, timeout_ms=TIMEOUT_MS)

    def add_learners(self, random: Random) -> None:
        """Add two nodes to the cluster as learners, unless another step is in progress."""
        self._begin(self._add_learners, "two_learners", random)

    async def _add_learners(self, admin: AsyncAdmin) -> bool:
        has_begun = self._rosters.are_complete and all(roster.is_begun for roster in self._rosters)
        gone = [node for node in self._nodes if not any(node in roster.named for roster in self._rosters)]
        if self._over or not has_begun or self._strangers() or len(gone) < 2:
            return False
        for node in gone[:2]:
            await self._add(admin, node, promote=False)
        configuration = self._rosters.first.configuration
        return configuration is not None and len(configuration.learners) > 1

    def place(self, random: Random) -> None:
        """Begin or end a drain, balance the replicas, pause the placement, or add a node to shard 0, unless another
        step is in progress."""
        self._begin(lambda admin: self._place(admin, random), "move_replicas", random)

    async def _place(self, admin: AsyncAdmin, random: Random) -> bool:
        has_begun = self._rosters.are_complete and all(roster.is_begun for roster in self._rosters)
        gone = [node for node in self._nodes if not any(node in roster.named for roster in self._rosters)]
        if self._over or not has_begun or self._strangers():
            return False
        placement = await admin.placement()
        draining = [node.node for node in placement.nodes if node.draining]
        chance = random.random()
        if placement.paused:
            await admin.pause_placement(resume=True)
        elif gone and chance < 0.3:
            node = random.choice(gone)
            if not (node.settings.join and node.is_empty):
                node.join()
            await admin.add_node(node.node, self._addresses[node.node], shard=TOPICS_SHARD, timeout_ms=TIMEOUT_MS)
        elif draining and chance < 0.6:
            await admin.stop_draining(random.choice(draining))
        elif chance < 0.85:
            await admin.drain_node(random.choice(placement.nodes).node, wait=False)
        elif chance < 0.95:
            await admin.rebalance(stop=random.random() < 0.3)
        elif len(placement.shards) > 1 and chance < 0.98:
            shard = random.choice([each.shard for each in placement.shards if each.shard != TOPICS_SHARD])
            await admin.set_replicas(random.choice((None, 3, 4)), shard=shard)
        else:
            await admin.pause_placement()
        return True

    # -- leaders

    def pin_leader(self, shard: int, random: Random) -> None:
        """Pin a voter as the leader of a shard, with a transfer of leadership or without, or remove the pin."""
        life = self.process.life
        life.deliver(lambda: life.create_task(self._pin(shard, random)))

    async def _pin(self, shard: int, random: Random) -> None:
        with contextlib.suppress(LedgerError):
            async with self.admin(random) as admin:
                configuration = self._rosters.of(shard).configuration
                if self._over or configuration is None:
                    return
                node = random.choice(sorted(configuration.voters))
                if random.random() < UNPINS:
                    await admin.unpin_leader(shard=shard, timeout_ms=TIMEOUT_MS)
                elif random.random() < 0.5:
                    await admin.pin_leader(node, shard=shard, timeout_ms=TIMEOUT_MS)
                else:
                    await admin.transfer_leadership(node, shard=shard, pin=True, timeout_ms=TIMEOUT_MS)
                self._happened["pin_leader"] += 1

    # -- shards and queues

    def add_shard(self, random: Random) -> None:
        """Add one shard, unless another step of the operator is in progress."""
        if len(self._rosters.numbers) < self._limits.shards:
            self._begin(self._add_shard, "add_group", random)

    async def _add_shard(self, admin: AsyncAdmin) -> bool:
        # A shard starts only when all its nodes have answered. A wiped node (a stranger) never answers.
        if self._over or self._strangers():
            return False
        await admin.add_shard()
        return True

    def alter_topic(self, random: Random) -> None:
        """Give a topic one or two more queues, unless the topic already has many queues."""
        life = self.process.life
        life.deliver(lambda: life.create_task(self._alter_topic(random)))

    async def _alter_topic(self, random: Random) -> None:
        with contextlib.suppress(LedgerError):
            async with self.admin(random) as admin:
                if self._over or not self._workload.topics:
                    return
                name = random.choice(self._workload.topics)
                queues = len((await admin.describe_topic(name)).offsets) + random.randint(1, 2)
                if queues <= MOST_QUEUES:
                    await admin.alter_topic(name, queues)
                    self._happened["alter_topic"] += 1

    # -- the log start

    def move_log_start(self, shard: int, random: Random) -> None:
        """Trim the log of a shard, so that the log begins at one of the leader's snapshots. In some cases, the
        operator first places a hold, which keeps the log from being trimmed. If another trim is in progress, do
        nothing."""
        leader = self._rosters.of(shard).leader
        if self._trims or self._over or leader is None or leader.replica is None:
            return
        candidates = LogTrim(leader.replica).candidates()
        if candidates:
            self._trims = True
            to = random.choice(candidates)
            life, keep_bytes = self.process.life, leader.replica.log.end - to.position
            life.deliver(lambda: life.create_task(self._trim(shard, random, keep_bytes)))

    async def _trim(self, shard: int, random: Random, keep_bytes: int) -> None:
        with contextlib.suppress(LedgerError):
            async with self.admin(random) as admin:
                if random.random() < HOLDS:
                    await self._hold(admin, shard, random, keep_bytes)
                await admin.trim_log(shard=shard, keep_bytes=keep_bytes, timeout_ms=TIMEOUT_MS)
        self._trims = False

    async def _hold(self, admin: AsyncAdmin, shard: int, random: Random, keep_bytes: int) -> None:
        """Place a hold on the log, try to trim the log, and release the hold after a random time. The hold can
        expire before it is released."""
        ttl_ms = random.randint(1_000, LONGEST_HOLD_MS)
        await admin.hold_log("reader", shard=shard, ttl_ms=ttl_ms, timeout_ms=TIMEOUT_MS)
        with contextlib.suppress(LogHeldError):
            await admin.trim_log(shard=shard, keep_bytes=keep_bytes, timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(random.random() * 2 * ttl_ms / 1000)
        await admin.release_log("reader", shard=shard, timeout_ms=TIMEOUT_MS)

    def admin(self, random: Random) -> AsyncAdmin:
        """Return a new admin client of the operator."""
        bootstrap = [self._addresses[node.node] for node in self._rosters.present]
        environment = self.process.environment
        return within(environment, AsyncAdmin)(bootstrap, request_timeout_ms=TIMEOUT_MS, rng=random)

"""Runs one seed of the scale world: the start of the cluster, and all scenarios one after another."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from chaos.sim.engine.loop import SimLoop
from chaos.sim.scale.consumers import ScaleConsumers
from chaos.sim.scale.nodes import ScaleNodes
from chaos.sim.scale.options import BLOCK_BYTES, ScaleOptions
from chaos.sim.scale.placing import ScalePlacement
from chaos.sim.scale.replica import FirstState, ShardNumbers, address_of
from chaos.sim.scale.scenarios import SCENARIO, Aim, ScaleCluster, is_healthy, until
from chaos.sim.scale.shard import ScaleShard, ShardEvents
from chaos.sim.scale.timing import WAKE_S
from chaos.sim.scale.watch import BALANCED, BrokenInvariant, Watch
from ledger.broker.placement import keeper
from ledger.broker.placement.plan import MOST_FIRST_VOTERS, PlacementPlan, plan
from ledger.broker.placement.view import PlacementView
from ledger.broker.topics.placement import place_shard
from ledger.state.commands import BeginReplicaMove, Command
from ledger.state.placement_table import PlacementTable
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import ConfiguredMember, ShardConfiguration

# Figures of consumers are added up in steps of so many wakes.
WAKES_OF_A_COUNT = 20
SEGMENT_BYTES, MAX_ENTRY_BYTES = 1 << 30, 16 << 20
START_WITHIN_S = 120.0


class Rate(NamedTuple):
    """A number for each second and node: the mean over all nodes, and that of the node with the most."""

    mean: float
    most: float


@dataclass(frozen=True, slots=True)
class ScenarioFigures:
    """What one scenario cost."""

    scenario: str
    nodes: int
    # Simulated time.
    seconds: float
    bytes_moved: int
    least_bytes: int
    moves: int
    least_moves: int
    elections: int
    # Shards without a leader: the most at one time, and the sum of their times, in steps of a wake.
    most_leaderless: int
    leaderless_s: float
    # Votes, heartbeats and answers that a node sends, and the bundles in which they travel.
    raft_messages: Rate
    raft_bundles: Rate
    # Requests of the placement keeper, and answers, that a node sends.
    keeper_calls: Rate
    # Requests of consumers that a node answers: heartbeats of members, and fetches without messages.
    heartbeats: Rate
    fetches: Rate
    # Consumers whose coordinator's shard got another leader.
    coordinators_lost: int
    # The most bytes of replicas that one node sent, in MB/s.
    peak_sent_mb_per_s: float
    # By how many replicas the fullest node and the emptiest node differ at the end.
    replicas_differ: int

    @property
    def ratio(self) -> float:
        """Return how many times the least bytes were moved; 0.0 if nothing was moved."""
        return self.bytes_moved / self.least_bytes if self.least_bytes else 0.0


@dataclass(slots=True)
class ScaleReport:
    """The result of one seed. `reason` is the broken invariant, or ""."""

    seed: int
    figures: list[ScenarioFigures] = field(default_factory=list)
    reason: str = ""
    simulated_s: float = 0.0
    # The same seed and options give the same digest.
    digest: str = ""
    # CPU times on this machine, which are no part of the digest: the whole run, and by scenario the longest `plan`.
    cpu_s: float = 0.0
    slowest_plan_ms: dict[str, float] = field(default_factory=dict)


class ScaleRun:
    """One cluster, from its start."""

    def __init__(
        self, seed: int, options: ScaleOptions, on_scenario: Callable[[str], None] = lambda name: None
    ) -> None:
        """`on_scenario` is called with the name of each scenario that begins."""
        self._on_scenario = on_scenario
        self.seed, self.options = seed, options
        self.loop = SimLoop()
        self.nodes = ScaleNodes(options, str(seed))
        self.watch = Watch(self.nodes)
        self.state = FirstState(PlacementTable(), ShardNumbers([*range(options.shards + 1)]), self._applied)
        self.placement = ScalePlacement(self.nodes, self.state, self.loop)
        self.consumers = ScaleConsumers(options)
        self._cluster = ScaleCluster(seed, options, self.nodes, self.placement, self.state, self.watch)
        self._digest = hashlib.sha256()
        self._moves = 0
        self._plan_s: list[float] = []

    def run(self) -> ScaleReport:
        """Run all scenarios. A broken invariant ends the run."""
        report, began = ScaleReport(self.seed), time.process_time()
        try:
            with self._timed_plans():
                self.loop.run_until_complete(self._scenarios(report))
        except BrokenInvariant as broken:
            report.reason = str(broken)
        finally:
            self.end()
        report.simulated_s, report.cpu_s = self.loop.now, time.process_time() - began
        report.digest = self._digest.hexdigest()[:16]
        return report

    def end(self) -> None:
        """End all tasks of the cluster."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _scenarios(self, report: ScaleReport) -> None:
        self._form()
        wakes = self.loop.create_task(self._wake())
        try:
            await self._measure(report, "start", self._start())
            for name in self.options.scenarios:
                await self._measure(report, name, SCENARIO[name](self._cluster))
        finally:
            wakes.cancel()

    async def _start(self) -> Aim:
        """Wait until each shard has its preferred leader."""
        self.watch.begin(0)

        def has_begun() -> bool:
            return all(
                is_healthy(shard)
                and shard.leader is not None
                and shard.leader.node == shard.leader.raft.preferred_leader
                for shard in self.nodes.shards.values()
            )

        await until(self._cluster, has_begun, START_WITHIN_S, "some shards do not have their preferred leader")
        return Aim(uneven=BALANCED)

    async def _measure(self, report: ScaleReport, name: str, scenario: Awaitable[Aim]) -> None:
        """Carry out a scenario, check the cluster, and add the figures to the report. Raises BrokenInvariant."""
        self._on_scenario(name)
        nodes, began = self.nodes, self.loop.now
        nodes.traffic.clear()
        bytes_moved, elections, lost = nodes.bytes_moved, nodes.elections, self.consumers.lost_coordinator
        moves, size, plans = self._moves, len(nodes.alive), len(self._plan_s)
        aim = await scenario
        self.watch.check()
        differ = self.watch.at_the_end(self.state.placement, aim.uneven)
        seconds, sent, size = self.loop.now - began, nodes.traffic, max(size, len(nodes.alive))

        def rate(of: Mapping[int, float]) -> Rate:
            return Rate(sum(of.values()) / seconds / size, max(of.values(), default=0) / seconds)

        found = ScenarioFigures(
            scenario=name,
            nodes=size,
            seconds=round(seconds, 1),
            bytes_moved=nodes.bytes_moved - bytes_moved,
            least_bytes=aim.least_bytes,
            moves=self._moves - moves,
            least_moves=aim.least_moves,
            elections=nodes.elections - elections,
            most_leaderless=self.watch.most_leaderless,
            leaderless_s=round(self.watch.leaderless_s, 1),
            raft_messages=rate(sent.raft),
            raft_bundles=rate(sent.bundles),
            keeper_calls=rate(sent.calls),
            heartbeats=rate(sent.heartbeats),
            fetches=rate(sent.fetches),
            coordinators_lost=self.consumers.lost_coordinator - lost,
            peak_sent_mb_per_s=round(sent.most_sent / 1e6, 1),
            replicas_differ=differ,
        )
        report.figures.append(found)
        report.slowest_plan_ms[name] = round(1000 * max(self._plan_s[plans:], default=0.0), 1)
        self._note(f"{found.scenario} {found.seconds} {found.bytes_moved} {found.moves} {found.elections} {differ}")

    # -- the cluster

    def _form(self) -> None:
        """Start all nodes, with shard 0 on all of them and the other shards where the product places them."""
        options, nodes = self.options, self.nodes
        for node in range(1, options.nodes + 1):
            nodes.alive[node] = None
            self.placement.start(node)
        # An operator takes the first voters of shard 0 from different rooms. The other nodes join as learners.
        first = [*nodes.alive][: MOST_FIRST_VOTERS if options.rooms >= MOST_FIRST_VOTERS else 3]
        self._add(TOPICS_SHARD, 1, first, [node for node in nodes.alive if node not in first])
        sizes, placed = Random(f"{self.seed}/sizes"), list[tuple[int, ...]]()
        for number in range(1, options.shards + 1):
            placed.append(place_shard(number, nodes.alive, placed, nodes.rooms))
            mean = max(2, options.megabytes * 1_000_000 // BLOCK_BYTES)
            self._add(number, sizes.randint(mean // 2, mean + mean // 2), placed[-1])

    def _add(self, number: int, blocks: int, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
        members, events = self._members(voters), ShardEvents(elected=self._elected, moved=self.nodes.moved)
        shard = ScaleShard(number, str(self.seed), blocks, events, self.nodes.rank, self.nodes.catch_up)
        shard.form(ShardConfiguration("scale", members, SEGMENT_BYTES, MAX_ENTRY_BYTES, self._members(learners)))
        self.nodes.shards[number] = shard

    def _members(self, nodes: Sequence[int]) -> dict[int, ConfiguredMember]:
        return {node: ConfiguredMember(self.placement.incarnation(), address_of(node)) for node in nodes}

    # -- time

    async def _wake(self) -> None:
        """Let all nodes tick, for ever."""
        wakes = 0
        while True:
            await asyncio.sleep(WAKE_S)
            self.watch.after_wake(self.nodes.wake())
            wakes += 1
            if wakes % WAKES_OF_A_COUNT == 0:
                self.consumers.pass_time(self.nodes, WAKES_OF_A_COUNT * WAKE_S)

    def _elected(self, shard: ScaleShard, node: int) -> None:
        self.nodes.elections += 1
        self.consumers.elected(shard.number)
        self._note(f"{self.loop.now:.3f} shard {shard.number}: node {node} leads")

    def _note(self, event: str) -> None:
        self._digest.update(event.encode())

    def _applied(self, command: Command) -> None:
        if isinstance(command, BeginReplicaMove):
            self._moves += 1
            self.watch.move_begins()
        self._note(f"{self.loop.now:.3f} {command}")

    @contextmanager
    def _timed_plans(self) -> Iterator[None]:
        """Measure how long the product's planner takes on this machine."""

        def timed(view: PlacementView) -> PlacementPlan:
            began = time.process_time()
            found = plan(view)
            self._plan_s.append(time.process_time() - began)
            return found

        keeper.plan = timed  # type: ignore[attr-defined]
        try:
            yield
        finally:
            keeper.plan = plan  # type: ignore[attr-defined]

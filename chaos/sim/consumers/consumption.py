"""Simulates the consumer groups of a cluster. The members of the consumer groups join, leave, crash, pause and lose
their network connections.

    plan (consumption_plan.py) ──> ConsumerMember, one process each ──> ConsumptionHistory ┐
    entries as nodes apply them ─────────────────────────────────────> ConsumptionTruth   ┴─> invariants

Each member is a simulated process, and each node is a simulated process too. A member can leave, be killed or pause at
any moment.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from chaos.sim.campaign.swarm import Options
from chaos.sim.consumers.consumer_member import ConsumerMember
from chaos.sim.consumers.consumption_end import ConsumptionEnd, unsettled
from chaos.sim.consumers.consumption_history import ConsumptionHistory
from chaos.sim.consumers.consumption_plan import GroupPlan, draw_groups
from chaos.sim.consumers.consumption_truth import ConsumptionTruth
from chaos.sim.consumers.member_ear import MemberEar
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import both_ways
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.workload import TOPICS, ClientProcess, Workload
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.delays import Delays
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.consumer_groups_admin import ResetTarget
from ledger.client.connection.lifetime import within
from ledger.errors import LedgerError

FIRST_MEMBER = 200
# Largest number of members of one consumer group at the same time.
MOST_MEMBERS = 6
TIMEOUT_MS = 5_000

MakeMemberProcess = Callable[[int, MemberEar], ClientProcess]


class SimConsumption:
    """Runs all consumer groups of a run. The function `process` makes the process of a member. `operator` is the
    process of the operator who resets offsets. The nodes can have different first offsets of the same queue,
    because some replicas keep older entries than others. The function `first_offset` returns the largest first
    offset of a queue on any node."""

    def __init__(
        self,
        options: Options,
        loop: SimLoop,
        network: Network,
        workload: Workload,
        process: MakeMemberProcess,
        operator: ClientProcess,
        fail: Callable[[str, str], None],
        first_offset: Callable[[str, int], int],
    ) -> None:
        self.plans = draw_groups(options, TOPICS)
        self.truth = ConsumptionTruth(fail)
        self.history = ConsumptionHistory(fail, loop.time, self.truth, {plan.name: plan for plan in self.plans})
        self.history.first_offset = first_offset
        # Members with a running process, by consumer group.
        self._members: dict[str, list[ConsumerMember]] = {plan.name: [] for plan in self.plans}
        self._options = options
        self._loop = loop
        self._network = network
        self._workload = workload
        self._process = process
        self._operator = operator
        self._fail = fail
        self._number = FIRST_MEMBER
        self._over = False
        # How many moves of coordinators the cluster has confirmed.
        self.coordinators_moved = 0

    def start(self) -> None:
        for plan in self.plans:
            for _ in range(plan.members):
                self._join(plan)

    # -- faults of members

    def fire(self, event: FaultEvent, nodes: Sequence[int]) -> bool:
        """Carry out the fault event if its kind concerns members of consumer groups and a member exists. Return
        True if the event had an effect."""
        random, seconds = chance_of(event), event.for_ms / 1000
        if not self.plans:
            return False
        plan = random.choice(self.plans)
        members = [member for member in self._members[plan.name] if not member.leaves]
        match event.kind:
            case "member_join" if len(self._members[plan.name]) < MOST_MEMBERS:
                self._join(plan)
            case "member_leave" if members:
                random.choice(members).leave()
            case "member_crash" if members:
                self._crash(random.choice(members), seconds)
            case "member_pause" if members:
                return self._pause(random.choice(members), seconds)
            case "member_cut" if members:
                self._cut(random.choice(members), nodes, seconds)
            case "offsets_reset":
                self._reset(plan, random)
                return False  # counted when the reset is in the log
            case _:
                return False
        return True

    def _join(self, plan: GroupPlan) -> None:
        number = self._number = self._number + 1
        ear, random = MemberEar(self._loop.time), self._options.chance(f"member {number}")
        seen = self.history.member(plan, number, ear)
        process, load = self._process(number, ear), self._workload
        member = ConsumerMember(
            seen, self.history, process, random, load.bootstrap, lambda: load.topics, lambda: self._end(member)
        )
        self._members[plan.name].append(member)
        member.start()

    def _end(self, member: ConsumerMember) -> None:
        """End the process of a member, and disconnect the process from the network."""
        self._members[member.seen.plan.name].remove(member)
        member.process.life.end()
        self._network.down(member.process.number)

    def _crash(self, member: ConsumerMember, seconds: float) -> None:
        """End the process of a member without leaving its consumer group. After `seconds`, a new process joins the
        group under another name."""
        member.seen.trouble = "crash"
        self._end(member)
        self._loop.call_later(seconds, self._join_again, member.seen.plan)

    def _join_again(self, plan: GroupPlan) -> None:
        if len(self._members[plan.name]) < MOST_MEMBERS:
            self._join(plan)

    def _pause(self, member: ConsumerMember, seconds: float) -> bool:
        life = member.process.life
        if life.paused:
            return False
        member.seen.trouble = "pause"
        life.pause()
        self._loop.call_later(seconds, lambda: life.go_on() if life.paused else None)
        return True

    def _cut(self, member: ConsumerMember, nodes: Sequence[int], seconds: float) -> None:
        member.seen.trouble = "cut"
        pairs = both_ways([(member.process.number, node) for node in nodes])
        self._network.cut_links(pairs)
        self._loop.call_later(seconds, self._mend, pairs)

    def _mend(self, pairs: Collection[tuple[int, int]]) -> None:
        if not self._over:  # at the end of the faults, all cuts were mended already
            self._network.mend_links(pairs)

    def stands_still(self, number: int, seconds: float) -> None:
        """Pause the member with this process number, so that its consumer group gives its queues to another member."""
        for plan in self.plans:
            for member in self._members[plan.name]:
                if member.process.number == number:
                    self._pause(member, seconds)
                    self._join_again(plan)
                    return

    # -- the operator

    def reset_queue(self, consumer_group: str, topic_id: int, queue: int, random: Random) -> None:
        """Let the operator move the consumer group's offset in one queue back or forward."""
        topic = self.truth.topics[topic_id]
        chosen = {"topic": topic, "queues": [queue]}
        offset = random.randint(0, len(self.truth.records(topic, queue)))
        life = self._operator.life
        life.deliver(lambda: life.create_task(self._ask_for(consumer_group, offset, chosen, random)))

    def _reset(self, plan: GroupPlan, random: Random) -> None:
        life = self._operator.life
        life.deliver(lambda: life.create_task(self._ask_for_reset(plan, random)))

    async def _ask_for_reset(self, plan: GroupPlan, random: Random) -> None:
        topic, queue = random.choice(plan.topics), random.randrange(self._options.queues)
        offset = random.randint(0, len(self.truth.records(topic, queue)))
        to: ResetTarget = random.choice(("earliest", "latest", offset))
        chosen: dict[str, Any] = {} if isinstance(to, str) else {"topic": topic, "queues": [queue]}
        await self._ask_for(plan.name, to, chosen, random)

    async def _ask_for(self, consumer_group: str, to: ResetTarget, chosen: dict[str, Any], random: Random) -> None:
        environment = self._operator.environment
        # A refused or unconfirmed reset is ignored here: the log shows what it did.
        with contextlib.suppress(LedgerError):
            async with within(environment, AsyncAdmin)(
                self._workload.bootstrap, request_timeout_ms=TIMEOUT_MS, rng=random
            ) as admin:
                await admin.reset_offsets(consumer_group, to, **chosen)

    def move_coordinator(self, shard: int, random: Random) -> None:
        """Let the operator move the coordinator of a consumer group to a shard."""
        if self.plans:
            life = self._operator.life
            life.deliver(lambda: life.create_task(self._ask_to_move(random.choice(self.plans).name, shard, random)))

    async def _ask_to_move(self, consumer_group: str, shard: int, random: Random) -> None:
        with contextlib.suppress(LedgerError):
            async with within(self._operator.environment, AsyncAdmin)(
                self._workload.bootstrap, request_timeout_ms=TIMEOUT_MS, rng=random
            ) as admin:
                await admin.move_coordinator(consumer_group, shard)
                self.coordinators_moved += 1

    # -- the end

    def end(self) -> None:
        """Stop all faults of members, and give each consumer group at least one member."""
        self._over = True
        for plan in self.plans:
            members = self._members[plan.name]
            for member in members:
                if member.process.life.paused:
                    member.process.life.go_on()
            if all(member.leaves for member in members):
                self._join(plan)

    @property
    def come(self) -> int:
        """The sum of the acknowledged offsets of all consumer groups. While the sum of the acknowledged offsets
        grows, the consumer groups make progress."""
        return sum(stand.offset for stand in self.truth.stands.values())

    def unsettled(self, leaders: Sequence[BrokerReplica], delays: Mapping[int, Delays]) -> Iterator[str]:
        """Return a phrase for each condition that must still be met before the run can end. `leaders` has the
        leader of each shard, ordered by shard, so the first item is the leader of shard 0. `delays` has the retry
        delays of each shard, which are measured with the clock of the shard's leader."""
        for plan in self.plans:
            members = self._members[plan.name]
            if any(member.leaves for member in members):
                yield f"a member of {plan.name} has not left yet"
            else:
                yield from unsettled(plan, [member.name for member in members], leaders, delays)

    def check_end(self, replicas: Sequence[BrokerReplica]) -> None:
        """Check the invariants that hold at the end of a run. The caller calls `check_end` when `unsettled` returns
        no phrase. `replicas` has every replica of every shard."""
        end = ConsumptionEnd(self.truth, self.history, self.history.counts)
        for plan in self.plans:
            for invariant, what in end.wrong(plan):
                self._fail(invariant, what)
        for replica in replicas:
            self.truth.compare(replica.state, replica.shard)

    def figures(self) -> Counter[str]:
        """Return the number of consumed messages, and the numbers of retries and other events of consumption in
        this run."""
        figures = Counter({f"consumers_{name}": count for name, count in self.history.counts.items()})
        figures.update({f"consumers_{name}": count for name, count in self.truth.counts.items()})
        figures.update({f"consumers_{name}": count for name, count in self.truth.coordinators.counts.items()})
        figures["consumers_rebalances"] = sum(shares.rebalances for shares in self.truth.shares.values())
        return figures

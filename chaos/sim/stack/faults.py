"""Carries out the faults of nodes and disks in the stack world.

A fault that the cluster does not promise to survive is neither carried out nor counted. For example, a fault is not
carried out if a majority of the voters would lose acknowledged data. The end of a process that was not killed is a
violation, unless an injected disk fault caused the end. A fault of the leader hits the leader of one shard. A fault of
files hits the files of one shard.

The module damage.py damages the files of nodes that are down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from chaos.sim.campaign.swarm import Options
from chaos.sim.consumers.consumption import SimConsumption
from chaos.sim.engine.disk_content import PAGE, SECTOR, Crash
from chaos.sim.engine.faults import STACK, FaultEvent, classes_of
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import both_ways
from chaos.sim.engine.rpc_server import Handler
from chaos.sim.engine.targets import chance_of, one_of, target_of
from chaos.sim.stack.cluster_operator import SimOperator
from chaos.sim.stack.damage import Damages
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.mirror_truth import MirrorTruth
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import DATA, directory_of
from chaos.sim.stack.power import PowerFaults
from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.workload import READER, ClientProcess, Workload
from ledger.topics import TOPICS_SHARD
from raft.core import Refusal
from raft.errors import CutFailedError
from store import DamagedError, LogDamagedError, NoSpaceError, StoreError
from store.disk.memory_disk import Killed

LOOK_S = 1.0
# After how many seconds an operator restarts a node that ended or can no longer write.
LOOKED_AFTER_S = (1.0, 15.0)
# An orderly stop that takes longer is followed by a kill, in seconds.
STOP_S = 5.0


class StackFaults:
    """Carries out the faults of nodes and disks of one run."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        options: Options,
        rosters: Rosters,
        operator: SimOperator,
        workload: Workload,
        consumption: SimConsumption,
        copies: MirrorTruth,
        operators_program: Callable[[], ClientProcess],
        fail: Callable[[str, str], None],
        happened: Counter[str],
    ) -> None:
        """The function `fail(invariant, what)` records a violation. `happened` counts effects of faults.
        `StackFaults` adds the effects that are known only some time after the fault."""
        self._loop = loop
        self._network = network
        self._rosters = rosters
        self._operator = operator
        self._workload = workload
        self._fail = fail
        self._happened = happened
        self._random = options.chance("repairs")
        self._damages = Damages(loop, fail, happened)
        self._power = PowerFaults(loop, options, rosters, self._damages, happened)
        self._over = False
        tools = DirectedTools(
            loop,
            network,
            options,
            rosters,
            operator,
            workload,
            consumption,
            self._power,
            self._damages,
            copies,
            operators_program,
            fail,
            happened,
        )
        # The fault kinds of this run that have a file of their own.
        self._directed: dict[str, DirectedFault] = {
            made.kind: made(tools) for made in classes_of(STACK, dict(options.strengths))
        }
        loop.call_later(LOOK_S, self._look)

    @property
    def _nodes(self) -> list[StackNode]:
        return self._rosters.present

    def watched(self, node: StackNode, method: str, handler: Handler) -> Handler:
        """Return the handler of a node's method, behind the faults of this run that delay calls."""
        for directed in self._directed.values():
            handler = directed.watched(node, method, handler)
        return handler

    def fire(self, event: FaultEvent) -> bool:
        """Carry out the fault event if its kind concerns nodes or disks and the fault is allowed now. Return True
        if the event had an effect."""
        shard = one_of(event, self._rosters.numbers)
        node, random, seconds = self._target(event, shard), chance_of(event), event.for_ms / 1000
        if (directed := self._directed.get(event.kind)) is not None:
            return directed.fire(event, shard, node)
        match event.kind:
            case "kill":
                return self._kill(node, shard, seconds, random)
            case "kill_all":
                killed = [self._kill(each, shard, random.uniform(0, seconds), random) for each in self._nodes]
                return any(killed)
            case "power_cut":
                return self._power.cut([node], seconds, Crash.drawn(random))
            case "power_cut_minority":
                voters = self._rosters.of(shard).voters
                few = random.sample(voters, (len(voters) - 1) // 2)
                return self._power.cut(few, seconds, Crash.drawn(random))
            case "power_cut_all":
                return self._power.cut(self._nodes, seconds, Crash.drawn(random))
            case "torn_write" | "out_of_order":
                unit = random.choice((SECTOR, SECTOR, PAGE))
                self._power.cut_when_it_tears(node, shard, Crash(random, unit, keeps=0.5, ordered_names=True))
            case "lost_rename":
                self._power.cut_when_names_are_lost(node, shard, Crash(random, PAGE, keeps=0.0, ordered_names=True))
            case "failed_flush":
                return self._power.fail_flush(self._nodes if random.random() < 0.3 else [node], random)
            case "wipe":
                return self._wipe(node)
            case "rolling_restart":
                return self._restart_all(seconds)
            case "transfer":
                return self._transfer(shard, random)
            case "reconfigure":
                self._operator.change(shard, random)
            case "log_start":
                self._operator.move_log_start(shard, random)
            case "add_group":
                self._operator.add_shard(random)
            case "alter_topic":
                self._operator.alter_topic(random)
            case "isolate_with_client":
                return self._isolate_with_client(shard, random, seconds)
            case "flipped_bit":
                return self._power.may_miss(node) and self._damages.flip(node, shard, random)
            case "old_file":
                if self._power.may_miss(node):
                    self._damages.put_back_old(node, shard, self._power.can_do_without)
            case "spoiled_index":
                return self._damages.spoil_index(node, random)
            case "flipped_base":
                return self._damages.flip_base(node, random)
            case _:
                return self._trouble(event, node, random, seconds)
        return False

    def _trouble(self, event: FaultEvent, node: StackNode, random: Random, seconds: float) -> bool:
        """Carry out an event that does not end the node's process, such as a pause or a slow disk."""
        match event.kind:
            case "pause":
                return self._pause(node, seconds)
            case "clock_jump":
                node.clock_ms += random.randint(-3_600_000, 3_600_000)
            case "clock_skew":
                _set_rate(node, random.uniform(0.9, 1.1))
                self._loop.call_later(seconds, _set_rate, node, 1.0)
            case "slow_disk":
                node.slow_disk = random.uniform(5, 200)
                self._loop.call_later(seconds, _set_slowness, node)
            case "slow_vote":
                node.slow_vote = 200.0
                self._loop.call_later(seconds, _set_slowness, node)
            case "full_disk":
                node.disk.room = random.choice((0, 100, 5_000))
                self._loop.call_later(seconds, _give_room, node)
            case "read_error":
                # A running node reads its log through a mapping. Only its start reads with system calls.
                if not self._kill(node, 0, 0.0, None):
                    return False
                node.disk.fail("read")
                return True
            case "corrupt_in_transit":
                node.transit.corrupts = random.choice((0.05, 0.5))
                self._loop.call_later(seconds, _be_clear, node)
                return False  # the flipped bits are counted instead
            case _:
                return False
        return node.alive

    def heal(self) -> None:
        """Heal every disk and every clock, and restart each node that is down or can no longer write."""
        self._over = True
        for directed in self._directed.values():
            directed.heal()
        self._power.end()
        self._operator.end()
        self._damages.restore_all()
        for node in self._nodes:
            self._happened["corrupt_in_transit"] += node.transit.corrupted
            _be_clear(node)
            node.disk.heal()
            _set_rate(node, 1.0)
            _set_slowness(node)
            if node.process is not None and node.process.life.paused:
                node.process.life.go_on()
            if _has_failed(node):
                node.kill()
            node.start_again()

    def _target(self, event: FaultEvent, shard: int) -> StackNode:
        """Return the node that the event hits: the leader of the shard, a follower of the shard, or any node. If
        the chosen node is down, return a node that is up."""
        there = self._rosters.of(shard).named if shard != TOPICS_SHARD else self._nodes
        parts = {node.part(shard): node for node in there if node.is_present}
        node = parts[target_of(event, [*parts])]
        return node if node.alive else next((each for each in self._nodes if each.alive), node)

    # -- ends of processes

    def _kill(self, node: StackNode, shard: int, seconds: float, random: Random | None) -> bool:
        """Kill the node now, or in the middle of one of its next writes."""
        if not node.alive or not self._power.may_kill(node):
            return False
        self._power.kills(node)
        if random is not None and random.random() < 0.7:
            log = directory_of(shard) / "log"
            node.disk.die_in_write(random.randint(1, 4), below=random.choice((log, log, DATA)))
            process = node.process
            self._loop.call_later(1.0, lambda: node.kill() if node.process is process else None)
            seconds += 1.0
        else:
            node.kill()
        self._loop.call_later(seconds, node.start_again)
        return True

    def _wipe(self, node: StackNode) -> bool:
        # A power cut during a removal of a voter could take away one voter too many.
        is_settled = self._rosters.are_complete and all(roster.is_settled for roster in self._rosters)
        if self._operator.busy or not is_settled or not self._power.may_miss(node):
            return False
        node.kill()
        node.wipe()
        node.start()
        return True

    def _restart_all(self, seconds: float) -> bool:
        for place, node in enumerate(self._nodes):
            self._loop.call_later(place * seconds, self._stop, node, seconds / 3)
        return True

    def _stop(self, node: StackNode, seconds: float) -> None:
        process = node.process
        if process is None or self._over:
            return
        node.stop()
        self._loop.call_later(STOP_S, lambda: node.kill() if node.process is process else None)
        self._loop.call_later(STOP_S + seconds, node.start_again)

    # -- faults with a duration

    def _pause(self, node: StackNode, seconds: float) -> bool:
        process = node.process
        if process is None or process.life.paused:
            return False
        process.life.pause()
        self._loop.call_later(seconds, lambda: process.life.go_on() if process.life.paused else None)
        return True

    def _isolate_with_client(self, shard: int, random: Random, seconds: float) -> bool:
        """Cut a leader off from the other nodes. Readers still reach the old leader, and producers reach only the
        other nodes. In some cases the clock of the old leader runs slowly, so that the old leader notices late that
        it has lost its followers."""
        leader = self._rosters.leader_of(shard)
        if leader is None:
            return False
        others = [node.node for node in self._nodes if node is not leader]
        senders = [producer.process.number for producer in self._workload.producers]
        pairs = both_ways(
            [(leader.node, other) for other in (*others, *senders)] + [(READER, other) for other in others]
        )
        self._network.cut_links(pairs)
        _set_rate(leader, random.choice((1.0, 0.9, 0.7)))
        self._workload.hurry(seconds)
        self._loop.call_later(seconds, self._mend, pairs, leader)
        return True

    def _mend(self, pairs: list[tuple[int, int]], leader: StackNode) -> None:
        if not self._over:
            _set_rate(leader, 1.0)
            self._network.mend_links(pairs)

    def _transfer(self, shard: int, random: Random) -> bool:
        leader = self._rosters.leader_of(shard)
        replica = leader.part(shard).replica if leader is not None else None
        others = [voter.node for voter in self._rosters.of(shard).voters if voter is not leader]
        if leader is None or leader.process is None or replica is None or not others:
            return False
        driver, to = replica.driver, random.choice(others)
        happened: list[bool] = []

        def transfer() -> None:
            try:
                driver.transfer(to)
            except (Refusal, StoreError):
                return
            happened.append(True)

        leader.process.life.deliver(leader.vital.event(transfer))
        return bool(happened)

    # -- processes that end by themselves, or that can no longer write

    def ended(self, node: StackNode) -> None:
        """Handle the end of a process that was not killed. Record a violation, unless a disk fault or planted
        damage caused the end. The node is restarted later."""
        reason = node.ended
        by_disk = isinstance(reason, (Killed, CutFailedError, StoreError)) and not isinstance(reason, DamagedError)
        if self._damages.noticed(node):
            return
        if not by_disk:
            self._fail("a node's own invariants", f"the process of node {node.node} ended: {reason!r}")
        self._look_after(node)

    def _look(self) -> None:
        for node in self._nodes:
            if _has_failed(node):
                self._look_after(node)
            for part in node.parts:
                part.check_damage()
        self._loop.call_later(LOOK_S, self._look)

    def _look_after(self, node: StackNode) -> None:
        """After some time, restart the node, as an operator would do."""
        process = node.process

        def restart() -> None:
            if node.process is process:
                if process is not None:
                    node.kill()
                node.start_again()

        self._loop.call_later(0.1 if self._over else self._random.uniform(*LOOKED_AFTER_S), restart)


def _has_failed(node: StackNode) -> bool:
    """Return True if the node cannot write until its next start."""
    failures = [part.replica.driver.failure for part in node.parts if part.replica is not None]
    return any(failure is not None and not isinstance(failure, NoSpaceError | LogDamagedError) for failure in failures)


def _set_rate(node: StackNode, rate: float) -> None:
    node.clock_rate = rate
    if node.process is not None:
        node.process.life.run_at_rate(rate)


def _set_slowness(node: StackNode) -> None:
    node.slow_disk = node.slow_vote = 1.0


def _be_clear(node: StackNode) -> None:
    node.transit.corrupts = 0.0


def _give_room(node: StackNode) -> None:
    node.disk.room = None

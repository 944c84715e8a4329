"""The faults of nodes and disks in the full-stack world.

The one idea: a fault that would break a promise nobody made (a majority without what it acknowledged, too few voters)
is not done, and not counted. A process that ends by itself is a violation, unless a disk drove it to that.

It must not know clients. What happens to files of nodes that are down is in stack_damage.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.disk_content import PAGE, SECTOR, Crash
from chaos.sim.faults import FaultEvent
from chaos.sim.invariants import Invariants
from chaos.sim.loop import SimLoop
from chaos.sim.node import DATA, StackNode
from chaos.sim.stack_damage import LOG, Damages
from chaos.sim.swarm import Options
from chaos.sim.targets import chance_of, leader_of, target_of
from raft.core import Refusal
from raft.driver import CutFailedError
from store import DamagedError, DiskFullError, StoreError
from store.memory_disk import Killed

LOOK_S = 1.0
LOOKED_AFTER_S = (1.0, 15.0)
"""How long it takes until somebody starts a node again that ended, or that can write no more."""
WAIT_S, WAIT_STEP_S = 15.0, 0.005
"""For a moment at which a power cut does something special."""
STOP_S = 5.0
"""What an orderly stop may take before the process is killed."""


class StackFaults:
    """`happened`: also counted there is what a power cut did to a disk."""

    def __init__(
        self,
        loop: SimLoop,
        options: Options,
        nodes: Sequence[StackNode],
        invariants: Invariants,
        happened: Counter[str],
    ) -> None:
        self.strangers: set[int] = set()
        """Nodes whose disk was wiped: they take no part."""
        self._loop = loop
        self._options = options
        self._nodes = nodes
        self._invariants = invariants
        self._happened = happened
        self._random = options.chance("repairs")
        self._damages = Damages(loop, invariants, happened)
        self._over = False
        for node in nodes:
            node.on_end = self._ended
        loop.call_later(LOOK_S, self._look)

    def fire(self, event: FaultEvent) -> bool:
        """Does it, if it is one of these and may be done. Returns whether it was."""
        node, random, seconds = self._living(target_of(event, self._nodes)), chance_of(event), event.for_ms / 1000
        match event.kind:
            case "kill":
                return self._kill(node, seconds, random)
            case "kill_all":
                killed = [self._kill(each, random.uniform(0, seconds), random) for each in self._nodes]
                return any(killed)
            case "power_cut":
                return self._cut_power([node], seconds, Crash.drawn(random))
            case "power_cut_minority":
                few = random.sample(list(self._nodes), (len(self._nodes) - 1) // 2)
                return self._cut_power(few, seconds, Crash.drawn(random))
            case "power_cut_all":
                return self._cut_power(self._nodes, seconds, Crash.drawn(random))
            case "torn_write" | "out_of_order":
                crash = Crash(random, random.choice((SECTOR, SECTOR, PAGE)), keeps=0.5, ordered_names=True)
                return self._cut_power_when(node, crash, lambda: node.disk.can_tear(LOG, crash.unit))
            case "lost_rename":
                crash = Crash(random, PAGE, keeps=0.0, ordered_names=True)
                return self._cut_power_when(node, crash, lambda: node.disk.can_forget_names(LOG))
            case "pause":
                return self._pause(node, seconds)
            case "clock_jump":
                node.clock_ms += random.randint(-3_600_000, 3_600_000)
                return node.alive
            case "clock_skew":
                _set_rate(node, random.uniform(0.9, 1.1))
                return self._for_a_while(node, seconds, lambda: _set_rate(node, 1.0))
            case "wipe":
                return self._wipe(node)
            case "rolling_restart":
                return self._restart_all(seconds)
            case "transfer":
                return self._transfer(random)
            case "slow_disk":
                node.slow_disk = random.uniform(5, 200)
                return self._for_a_while(node, seconds, lambda: _set_slowness(node))
            case "slow_vote":
                node.slow_vote = 200.0
                return self._for_a_while(node, seconds, lambda: _set_slowness(node))
            case "full_disk":
                node.disk.room = random.choice((0, 100, 5_000))
                return self._for_a_while(node, seconds, lambda: _give_room(node))
            case "failed_flush":
                node.disk.fail("sync")
                return node.alive
            case "read_error":
                # A running node reads its log through a mapping; what reads by calls is its start.
                node.disk.fail("read")
                return self._kill(node, 0.0, None)
            case "flipped_bit":
                return self._may_miss(node) and self._damages.flip(node, random)
            case "old_file":
                if self._may_miss(node):
                    self._damages.put_back_old(node)
        return False

    def heal(self) -> None:
        """Every disk and clock is well; whoever is down or cannot write any more is started anew."""
        self._over = True
        self._damages.repair_all()
        for node in self._nodes:
            node.disk.heal()
            _set_rate(node, 1.0)
            _set_slowness(node)
            if node.process is not None and node.process.life.paused:
                node.process.life.go_on()
            if _has_failed(node):
                node.kill()
            if node.process is None:
                node.start()

    def _living(self, node: StackNode) -> StackNode:
        """The node, or another one where it is down already."""
        return node if node.alive else next((each for each in self._nodes if each.alive), node)

    # -- ends of processes

    def _kill(self, node: StackNode, seconds: float, random: Random | None) -> bool:
        """At once, or in the midst of one of its next writes."""
        if not node.alive:
            return False
        if random is not None and random.random() < 0.7:
            node.disk.die_in_write(random.randint(1, 4), below=random.choice((LOG, LOG, DATA)))
            process = node.process
            self._loop.call_later(1.0, lambda: node.kill() if node.process is process else None)
            seconds += 1.0
        else:
            node.kill()
        self._loop.call_later(seconds, self._start, node)
        return True

    def _cut_power(self, nodes: Sequence[StackNode], seconds: float, crash: Crash) -> bool:
        # Of a log with planted damage a power loss would make a torn one, which is cut and not refused.
        nodes = [node for node in nodes if not self._damages.is_planted(node)]
        if not any(node.alive for node in nodes) or not self._may_lose(nodes):
            return False
        for node in nodes:
            node.power_cut(crash)
            self._loop.call_later(seconds, self._start, node)
        self._happened.update({name: count for name, count in sorted(crash.happened.items()) if count})
        return True

    def _cut_power_when(self, node: StackNode, crash: Crash, there_is_something: Callable[[], bool]) -> bool:
        """At the first moment at which it can do that; what it really did is counted then."""
        deadline = self._loop.time() + WAIT_S

        def look() -> None:
            if self._over or self._loop.time() > deadline or not node.alive:
                return
            if there_is_something():
                self._cut_power([node], 1.0, crash)
            else:
                self._loop.call_later(WAIT_STEP_S, look)

        look()
        return False

    def _may_lose(self, nodes: Sequence[StackNode]) -> bool:
        """Whether these may lose what was not flushed without breaking a promise: always where everything acknowledged
        is flushed; otherwise only as long as a majority that has lost nothing remains. A torn log makes a node suspect
        under `sync` too, and without an intact majority every voter must answer: one that was wiped never will."""
        if self._options.sync and not self.strangers:
            return True
        hurt = {node.node for node in self._nodes if self._is_hurt(node)} | {node.node for node in nodes}
        return 2 * len(hurt) < len(self._nodes)

    def _is_hurt(self, node: StackNode) -> bool:
        return node.suspect or node.node in self.strangers

    def _may_miss(self, node: StackNode) -> bool:
        """Whether the others can do without it."""
        there = [each for each in self._nodes if each is not node and each.alive and not self._is_hurt(each)]
        return node.alive and node.node not in self.strangers and 2 * len(there) > len(self._nodes)

    def _wipe(self, node: StackNode) -> bool:
        if not self._may_miss(node):
            return False
        node.kill()
        node.wipe()
        self.strangers.add(node.node)
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
        self._loop.call_later(STOP_S + seconds, self._start, node)

    def _start(self, node: StackNode) -> None:
        if not node.alive:
            node.start()

    # -- what lasts for a while

    def _pause(self, node: StackNode, seconds: float) -> bool:
        process = node.process
        if process is None or process.life.paused:
            return False
        process.life.pause()
        self._loop.call_later(seconds, lambda: process.life.go_on() if process.life.paused else None)
        return True

    def _for_a_while(self, node: StackNode, seconds: float, end: Callable[[], None]) -> bool:
        self._loop.call_later(seconds, end)
        return node.alive

    def _transfer(self, random: Random) -> bool:
        leader = leader_of(self._nodes)
        if leader is None or leader.replica is None or leader.process is None or len(self._nodes) == 1:
            return False
        driver, to = leader.replica.driver, random.choice([node.node for node in self._nodes if node is not leader])
        happened: list[bool] = []

        def transfer() -> None:
            try:
                driver.transfer(to)
            except (Refusal, StoreError):
                return
            happened.append(True)

        leader.process.life.deliver(leader.vital.event(transfer))
        return bool(happened)

    # -- processes that end by themselves, and those that can write no more

    def _ended(self, node: StackNode) -> None:
        reason = node.ended
        by_disk = isinstance(reason, (Killed, CutFailedError, StoreError)) and not isinstance(reason, DamagedError)
        if self._damages.noticed(node):
            return
        if not by_disk:
            self._invariants.fail("a node's own invariants", f"node {node.node} ends: {reason!r}")
        self._look_after(node)

    def _look(self) -> None:
        for node in self._nodes:
            if _has_failed(node):
                self._look_after(node)
        self._loop.call_later(LOOK_S, self._look)

    def _look_after(self, node: StackNode) -> None:
        """Somebody restarts it, some time."""
        process = node.process

        def restart() -> None:
            if node.process is process:
                if process is not None:
                    node.kill()
                node.start()

        self._loop.call_later(0.1 if self._over else self._random.uniform(*LOOKED_AFTER_S), restart)


def _has_failed(node: StackNode) -> bool:
    """Whether it can write no more, and only a restart helps."""
    failure = node.replica.driver.failure if node.replica is not None else None
    return failure is not None and not isinstance(failure, DiskFullError)


def _set_rate(node: StackNode, rate: float) -> None:
    node.clock_rate = rate
    if node.process is not None:
        node.process.life.run_at_rate(rate)


def _set_slowness(node: StackNode) -> None:
    node.slow_disk = node.slow_vote = 1.0


def _give_room(node: StackNode) -> None:
    node.disk.room = None

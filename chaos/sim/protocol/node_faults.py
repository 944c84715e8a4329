"""Carries out the faults of nodes and disks in the protocol world.

Two limits apply to the faults of a run: how many disks are allowed to lose acknowledged entries, and how many disks
are allowed to be wiped. A fault that would exceed one of the two limits is neither carried out nor counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.ambush import Ambush, CriticalMoment
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.targets import chance_of, target_of
from chaos.sim.protocol.membership import SimMembership
from chaos.sim.protocol.node import ProtocolNode

# How long it takes until an operator restarts a node whose disk failed.
REPLACED_AFTER_MS = (2_000, 20_000)


class NodeFaults:
    """Carries out the faults of nodes and disks of one run."""

    def __init__(
        self, loop: SimLoop, options: Options, nodes: Sequence[ProtocolNode], sprung: Callable[[str], None]
    ) -> None:
        """The callback `sprung` is called with the fault kind of each ambush that had an effect."""
        self.ambush = Ambush(loop)
        self._sprung = sprung
        self._loop = loop
        self._options = options
        self._nodes = nodes
        self._random = options.chance("node faults")
        self._membership = SimMembership(nodes)

    def fire(self, event: FaultEvent) -> bool:
        """Carry out the fault event if its kind concerns nodes or disks, and if the limits on lost and wiped disks
        allow the fault. Return True if the event had an effect."""
        node, random = target_of(event, self._nodes), chance_of(event)
        match event.kind:
            case "kill":
                return self.kill(node, event.for_ms)
            case "kill_all":
                return self._kill_all(random, event.for_ms)
            case "power_cut":
                return self._cut_power([node], event, random)
            case "power_cut_minority":
                few = random.sample(list(self._nodes), (len(self._nodes) - 1) // 2)
                return self._cut_power(few, event, random)
            case "power_cut_all":
                return self._cut_power(self._nodes, event, random)
            case "kill_at_vote":
                self.kill(node, event.for_ms)
                self.ambush.lay(
                    CriticalMoment.VOTED, 0.0, lambda hit: self._spring(event, self.kill(hit, event.for_ms))
                )
            case "kill_at_election":
                self.kill(node, event.for_ms)
                delay_s = random.choice((0.0, 0.02, 0.2))
                self.ambush.lay(
                    CriticalMoment.ELECTED, delay_s, lambda hit: self._spring(event, self.kill(hit, event.for_ms))
                )
            case "power_cut_at_ack":
                self.ambush.lay(
                    CriticalMoment.ACKNOWLEDGED,
                    0.0,
                    lambda hit: self._spring(event, self._cut_power(self._nodes, event, random)),
                )
            case "pause":
                return self._pause(node, event.for_ms)
            case "clock_jump":
                node.clock_off_ms += random.randint(-3_600_000, 3_600_000)
                return node.alive
            case "clock_skew":
                return self.skew(node, random.uniform(0.7, 1.4), event)
            case "wipe":
                return self._wipe(node)
            case "transfer":
                return self._membership.transfer(random)
            case "reconfigure":
                return self._membership.change(random)
            case "rolling_restart":
                return self._restart_all(event.for_ms)
            case "slow_disk":
                return self._for_a_while(
                    node, event, lambda: _set_slowness(node, random.uniform(5, 200)), lambda: _set_slowness(node, 1.0)
                )
            case "slow_vote":
                return self._for_a_while(
                    node, event, lambda: _set_vote_slowness(node, 200.0), lambda: _set_vote_slowness(node, 1.0)
                )
            case "full_disk":
                return self._for_a_while(node, event, lambda: _set_full(node, True), lambda: _set_full(node, False))
            case "failed_flush":
                return self._fail_flush(node)
        return False

    def remove(self, node: ProtocolNode) -> bool:
        """Let the operator ask the leader to remove this member. Return True if the leader accepted the change."""
        return self._membership.remove(node)

    def _spring(self, event: FaultEvent, happened: bool) -> None:
        if happened:
            self._sprung(event.kind)

    def heal(self) -> None:
        """Heal every disk and every clock, and restart each node that is down or cannot write."""
        self.ambush.clear()
        for node in self._nodes:
            node.clock_rate = 1.0
            node.log.full = False
            if node.paused:
                node.resume()
            if node.alive and node.log.failure is not None:
                node.kill()
            if node.alive:
                _set_slowness(node, 1.0)
                _set_vote_slowness(node, 1.0)
                node.disk.fails_next_flush = False
            elif not node.stranger:
                node.start()

    def disk_failed(self, node: ProtocolNode) -> None:
        """After a random time, restart a node with a failed disk, as an operator would do."""
        self.start_later(node, self._random.randint(*REPLACED_AFTER_MS), lambda: self.kill(node, 0))

    # -- ends of processes

    def kill(self, node: ProtocolNode, for_ms: int) -> bool:
        """Kill the node, and start it again after `for_ms` milliseconds. Return True if it was running."""
        if not node.alive:
            return False
        node.kill()
        self.start_later(node, for_ms)
        return True

    def _kill_all(self, random: Random, for_ms: int) -> bool:
        killed = [self.kill(node, random.randint(0, for_ms)) for node in self._nodes]
        return any(killed)

    def start_later(self, node: ProtocolNode, ms: int, instead: Callable[[], object] | None = None) -> None:
        """Start the node after `ms` milliseconds if it does not run then. If it runs with a failed disk, call
        `instead`."""

        def start() -> None:
            if node.alive and instead is not None and node.log.failure is not None:
                instead()
            elif not node.alive and not node.stranger:
                node.start()
                self._others_notice(node)

        self._loop.call_later(ms / 1000, start)

    def _others_notice(self, node: ProtocolNode) -> None:
        """Notify the other nodes that their streams to the ended process of this node have broken."""
        for other in self._nodes:
            if other is not node:
                other.unreachable(node.node)

    def _cut_power(self, nodes: Sequence[ProtocolNode], event: FaultEvent, random: Random) -> bool:
        alive = [node for node in nodes if node.alive]
        if not alive or not self.may_lose(alive):
            return False
        for node in alive:
            node.cut_power()
            self.start_later(node, random.randint(0, event.for_ms))
        return True

    def may_lose(self, nodes: Sequence[ProtocolNode]) -> bool:
        """Return True if a power cut of these nodes breaks no promise of the cluster. In `sync` mode, or if the run
        accepts losses, every power cut is allowed. In `async` mode, the voters that have lost no entries must still
        be a majority after the power cut."""
        if self._options.sync or self._options.accepted_loss:
            return True
        return self._can_do_without(nodes)

    def _can_do_without(self, nodes: Sequence[ProtocolNode]) -> bool:
        """Return True if, without these nodes, the voters that have lost no data are still a majority of all
        voters. The condition must hold in the configuration of every node."""
        hurt = {node.node for node in self._nodes if node.suspect or node.stranger} | {node.node for node in nodes}
        known = {node.raft.configuration.voters for node in self._nodes if node.raft is not None}
        return bool(known) and all(2 * len(hurt.intersection(voters)) < len(voters) for voters in known)

    def _wipe(self, node: ProtocolNode) -> bool:
        """Wipe the disk of a node if, without this node, the voters that have lost no data are still a majority of
        all voters. Return True if the disk was wiped."""
        if not node.alive or not self._can_do_without([node]):
            return False
        node.wipe()
        node.start()
        return True

    def _restart_all(self, for_ms: int) -> bool:
        for place, node in enumerate(self._nodes):
            self._loop.call_later(place * for_ms / 1000, self.kill, node, for_ms // 3)
        return True

    # -- faults with a duration

    def _pause(self, node: ProtocolNode, for_ms: int) -> bool:
        if not node.alive or node.paused:
            return False
        node.pause()
        self._loop.call_later(for_ms / 1000, lambda: node.resume() if node.paused else None)
        return True

    def skew(self, node: ProtocolNode, rate: float, event: FaultEvent) -> bool:
        """Let the node's clock run `rate` times as fast as simulated time for the duration of the event."""
        return self._for_a_while(node, event, lambda: _set_rate(node, rate), lambda: _set_rate(node, 1.0))

    def _for_a_while(
        self, node: ProtocolNode, event: FaultEvent, begin: Callable[[], None], end: Callable[[], None]
    ) -> bool:
        if not node.alive:
            return False
        begin()
        self._loop.call_later(event.for_ms / 1000, end)
        return True

    def _fail_flush(self, node: ProtocolNode) -> bool:
        """In `sync` mode, let the next flush of the node fail. In `async` mode, do nothing, because a failed flush
        would lose acknowledged entries."""
        if not node.alive or not self._options.sync:
            return False
        node.disk.fails_next_flush = True
        return True


def _set_rate(node: ProtocolNode, rate: float) -> None:
    node.clock_rate = rate


def _set_slowness(node: ProtocolNode, times: float) -> None:
    if node.alive:
        node.disk.slowness = times


def _set_vote_slowness(node: ProtocolNode, times: float) -> None:
    if node.alive:
        node.disk.vote_slowness = times


def _set_full(node: ProtocolNode, full: bool) -> None:
    node.log.full = full

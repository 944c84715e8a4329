"""Carries out power cuts and failed flushes in the stack world. Power cuts and failed flushes lose unflushed data.

A power cut or failed flush is carried out only if it breaks no promise of the cluster in any shard. In `async` mode,
less than half of the voters are allowed to lose acknowledged data. A power cut can make a node suspect, and a suspect
node votes only if every voter votes. For this reason, a power cut of a node is allowed only if the other nodes can
work without this node, or if all voters respond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.disk_content import Crash
from chaos.sim.engine.loop import SimLoop
from chaos.sim.stack.damage import Damages
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of
from chaos.sim.stack.roster import Roster, Rosters

# How long to wait for the moment at which a power cut has the wanted effect, and how often to look; in seconds.
WAIT_S, WAIT_STEP_S = 15.0, 0.005


class PowerFaults:
    """Decides which power cuts are allowed, and carries out the allowed power cuts. `happened` also counts the
    effects of power cuts on disks."""

    def __init__(
        self, loop: SimLoop, options: Options, rosters: Rosters, damages: Damages, happened: Counter[str]
    ) -> None:
        self._loop = loop
        self._options = options
        self._rosters = rosters
        self._damages = damages
        self._happened = happened
        # Nodes that lose or have lost data, with their process. The effect shows when the next process runs.
        self._losing: dict[StackNode, object] = {}
        self._over = False

    def end(self) -> None:
        """Cancel all planned power cuts that have not happened yet."""
        self._over = True

    def cut(self, nodes: Sequence[StackNode], seconds: float, crash: Crash) -> bool:
        # A power cut could hide planted damage: a torn log end is cut off, while damage is refused.
        nodes = [node for node in nodes if not self._damages.is_planted(node)]
        if not any(node.alive for node in nodes) or not self._may_lose(nodes):
            return False
        for node in nodes:
            self._losing[node] = node.process
            node.power_cut(crash)
            self._loop.call_later(seconds, node.start_again)
        self._happened.update({name: count for name, count in sorted(crash.happened.items()) if count})
        return True

    def cut_when_it_tears(self, node: StackNode, shard: int, crash: Crash) -> None:
        log = directory_of(shard) / "log"
        self._cut_when(node, crash, lambda: node.disk.exists(log) and node.disk.can_tear(log, crash.unit))

    def cut_when_names_are_lost(self, node: StackNode, shard: int, crash: Crash) -> None:
        log = directory_of(shard) / "log"
        self._cut_when(node, crash, lambda: node.disk.exists(log) and node.disk.can_forget_names(log))

    def _cut_when(self, node: StackNode, crash: Crash, there_is_something: Callable[[], bool]) -> None:
        """Wait at most WAIT_S seconds until the function `there_is_something` returns True, and then cut the power
        of the node."""
        deadline = self._loop.time() + WAIT_S

        def look() -> None:
            if self._over or self._loop.time() > deadline or not node.alive:
                return
            if there_is_something():
                self.cut([node], 1.0, crash)
            else:
                self._loop.call_later(WAIT_STEP_S, look)

        look()

    def fail_flush(self, nodes: Sequence[StackNode], random: Random) -> bool:
        """Let the next flush of each node in `nodes` fail, if no promise of the cluster would be broken. Return
        True if the failures were planned."""
        nodes = [node for node in nodes if node.alive]
        if not nodes or not self._may_lose(nodes):
            return False
        for node in nodes:
            node.disk.fail("sync", times=1)
            self._losing[node] = node.process
            if not self._options.sync:
                node.will_be_suspect()
        return True

    def may_miss(self, node: StackNode) -> bool:
        """Return True if the node runs and the other nodes can work without it."""
        return node.alive and self.can_do_without(node)

    def can_do_without(self, node: StackNode) -> bool:
        """Return True if the other nodes can work without this node in each shard of this node."""
        if not self._rosters.first.is_member(node.node):
            return False
        return all(self._shard_may_miss(roster, node) for roster in self._rosters if node in roster.named)

    def _shard_may_miss(self, roster: Roster, node: StackNode) -> bool:
        return roster.is_member(node.node) and all(
            self._can_do_without(node, roster, voters) for voters in roster.electorates
        )

    def _can_do_without(self, node: StackNode, roster: Roster, voters: Sequence[StackNode]) -> bool:
        there = [each for each in voters if each is not node and each.alive and not self._is_hurt(roster, each)]
        return 2 * len(there) > len(voters)

    def may_kill(self, node: StackNode) -> bool:
        """Return True if the node is allowed to be killed, because no promise of the cluster would be broken. If a
        process stages its writes (keeps them in its own memory first), the end of the process loses unflushed data."""
        return not self._options.staged or self._may_lose([node])

    def kills(self, node: StackNode) -> None:
        """Record that a fault ends the process of the node now or in one of its next writes."""
        if self._options.staged:
            self._losing[node] = node.process

    def _may_lose(self, nodes: Sequence[StackNode]) -> bool:
        return all(self._shard_may_lose(roster, nodes) for roster in self._rosters)

    def _shard_may_lose(self, roster: Roster, nodes: Sequence[StackNode]) -> bool:
        return all(self._voters_may_lose(voters, roster, nodes) for voters in roster.electorates)

    def _voters_may_lose(self, voters: Sequence[StackNode], roster: Roster, nodes: Sequence[StackNode]) -> bool:
        """Return True if a power cut of these nodes would break no promise of the cluster in one shard. In `sync`
        mode, the power cut is allowed if every voter of the shard can respond. A node that lost its disk cannot
        respond, and a node with a damaged log cannot respond. In all other cases, more than half of the voters must
        keep all acknowledged data."""
        answering = [each for each in voters if roster.answers(each) and not self._damages.is_planted(each)]
        if self._options.sync and len(answering) == len(voters):
            return True
        hurt = [voter for voter in voters if voter in nodes or self._is_hurt(roster, voter)]
        return 2 * len(hurt) < len(voters)

    def _is_hurt(self, roster: Roster, node: StackNode) -> bool:
        suspect = node.part(roster.shard).suspect
        is_whole = not suspect and not self._loses(node) and not self._damages.is_planted(node)
        return not is_whole or not roster.answers(node)

    def _loses(self, node: StackNode) -> bool:
        if node.alive and self._losing.get(node) is not node.process:
            self._losing.pop(node, None)
        return node in self._losing

"""Runs nodes with an older program, upgrades them while the load runs, and checks the feature levels.

    older program ──> restart in order, or any other start after that time ──> present program

An older program is the present code that knows only lower feature levels. Three statements are checked:

    safe         when a level is raised, the program of each member of the shard knows it
    no stop      no member ever meets an entry, or a state, of a level that its program does not know
    live         at the end, each shard has the highest level that the programs of all its members know. Nothing is
                 demanded while a member has lost its disk: the node takes no part, so its leader cannot know its level

That no replica applies an entry differently is checked in all runs: the states after the same entry are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from chaos.sim.engine.loop import SimLoop
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.roster import Roster, Rosters
from ledger.broker.broker_replica import BrokerReplica
from ledger.v1 import command_pb2
from store import EntryKind, Header

# An orderly stop that takes longer is followed by a kill, and the start comes this much later, in seconds.
STOP_S = 5.0
START_S = 1.0


class Versions:
    """The programs of all nodes. `old` has the nodes with an older program, and when they are upgraded in ms.
    `fail(invariant, what)` records a violation."""

    def __init__(
        self,
        loop: SimLoop,
        rosters: Rosters,
        nodes: list[StackNode],
        old: Mapping[int, tuple[int, int]],
        fail: Callable[[str, str], None],
        happened: Counter[str],
    ) -> None:
        self._loop = loop
        self._rosters = rosters
        self._old = old
        self._fail = fail
        self._happened = happened
        # (shard, level) of the raises that were judged.
        self._judged: set[tuple[int, int]] = set()
        for node in nodes:
            node.on_unknown = self._unknown
            if node.node in old:
                level, at_ms = old[node.node]
                node.program_level = level
                loop.call_at(at_ms / 1000, self._upgrade, node)

    def _upgrade(self, node: StackNode) -> None:
        """Install the present program, and restart the node."""
        node.program_level = node.latest_level
        self._happened["program upgraded"] += 1
        process = node.process
        if process is not None:
            node.stop()
            self._loop.call_later(STOP_S, lambda: node.kill() if node.process is process else None)
            self._loop.call_later(STOP_S + START_S, node.start_again)

    def applied(self, replica: BrokerReplica, header: Header, body: bytes) -> None:
        """Judge an entry that a node has applied."""
        if header.kind is not EntryKind.COMMAND:
            return
        command = command_pb2.Command.FromString(body)
        if command.WhichOneof("command") != "raise_feature_level":
            return
        raised = (replica.shard, command.raise_feature_level.level)
        if raised in self._judged:
            return
        self._judged.add(raised)
        for node in self._rosters.of(replica.shard).members:
            if node.running_level < raised[1]:
                self._fail(
                    "a level needs all members",
                    f"shard {raised[0]} has level {raised[1]}, and node {node.node} knows {node.running_level}",
                )

    def unsettled(self) -> list[str]:
        """Return a phrase for each shard whose feature level is not what its members allow."""
        if not self._old:
            return []
        return [phrase for roster in self._rosters if (phrase := self._unsettled(roster))]

    def _unsettled(self, roster: Roster) -> str:
        leader = roster.leader
        if leader is None or leader.replica is None:
            return ""  # that is missing anyway
        if roster.strangers:
            return ""
        found = leader.replica.state.feature_level
        allowed = min((node.running_level for node in roster.members), default=found)
        return "" if found == allowed else f"shard {roster.shard} has feature level {found}, not {allowed}"

    def _unknown(self, node: StackNode, shard: int, reason: Exception) -> None:
        self._fail("a level needs all members", f"node {node.node} applies no more entries of shard {shard}: {reason}")

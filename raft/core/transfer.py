"""Handover: a leader gives leadership to another voter, the target (dissertation, section 3.10).

    begin ──> the target lacks entries ──> it holds the whole log: TimeoutNow ──> it stands, and wins in a newer term
      |                |                              |
      |                +------------------------------+──> an election timeout passes: the leader gives up and leads on
      +──> refused: the target is not a voter, is a suspect or diverges, or was not heard lately

During a handover the leader accepts no proposals, so the target's log can become equal to the leader's log. Proposals
from before the handover are not lost. A shard can have a preferred leader. If another voter leads the shard, it hands
leadership over as soon as the preferred leader's log keeps up with its own log.
"""

from __future__ import annotations

from collections.abc import Mapping

from raft.core.errors import TransferRefused
from raft.core.messages import TimeoutNow
from raft.core.progress import FollowerProgress, Mode
from raft.core.server import Server
from raft.core.settings import RaftSettings

# A leader waits this many election timeouts before it hands leadership over to the preferred leader. It waits as long
# again after a handover that failed.
PREFERENCE_PATIENCE = 8


class Transfer:
    """Carries out the handovers of one leader, at most one at a time."""

    __slots__ = ("_began", "_prefer", "_progress", "_server", "_timing", "to")

    def __init__(self, server: Server, progress: Mapping[int, FollowerProgress], settings: RaftSettings) -> None:
        self._server = server
        self._progress = progress
        self._timing = settings.timing
        self._prefer = settings.prefer
        # The tick at which the last handover began. Before the first handover: the tick at which the leadership began.
        self._began = server.ticks
        # The target; 0: no handover is under way.
        self.to = 0

    def begin(self, to: int) -> None:
        """Begin a handover to node `to`. Raises TransferRefused."""
        server, progress = self._server, self._progress.get(to)
        if to == server.node:
            raise TransferRefused(f"node {to} leads already")
        if progress is None or to not in server.voters:
            raise TransferRefused(f"node {to} is no voter of this shard")
        if progress.diverges:
            raise TransferRefused(f"the log of node {to} contradicts the log of node {server.node}")
        if progress.suspicion:
            raise TransferRefused(f"node {to} may have lost entries in a crash and is catching up")
        if server.ticks - progress.heard_at >= self._timing.election_ticks:
            raise TransferRefused(f"node {to} does not answer")
        if to != self.to:  # a repeated request does not extend the time limit
            self.to, self._began = to, server.ticks
        self.heard(to)

    def tick(self) -> None:
        """Give up a handover that takes too long. If the preferred leader's log keeps up, begin the handover to the
        preferred leader."""
        if self.to and self._server.ticks - self._began >= self._timing.election_ticks:
            self.to = 0
        if not self.to and (preferred := self._prefer(self._server.voters)) and self._wants(preferred):
            self.begin(preferred)

    def heard(self, node: int) -> None:
        """Record that `node` acknowledged more entries. If `node` is the target and holds the whole log, tell it to
        stand for election."""
        if node == self.to and self._holds_all(node):
            self._tell(node)

    def heartbeat(self) -> None:
        """Repeat TimeoutNow to a target that holds the whole log, because the message may have been lost."""
        if self.to:
            self.heard(self.to)

    def hand_to_anybody(self) -> None:
        """Tell one voter that holds the whole log to stand for election at once, because this leader steps down. Do
        nothing if no voter holds the whole log."""
        for node in self._server.voters:
            if node != self._server.node and self._holds_all(node):
                self._tell(node)
                return

    def _holds_all(self, node: int) -> bool:
        progress = self._progress[node]
        return not progress.suspicion and progress.match == self._server.log.last_index

    def _tell(self, node: int) -> None:
        server = self._server
        server.send(TimeoutNow(server.node, node, server.term))

    def _wants(self, preferred: int) -> bool:
        """Return True if the leader should hand leadership over to `preferred` now. `preferred` must be another
        voter, must not be a suspect, and its log must keep up."""
        if preferred not in self._server.voters or preferred == self._server.node:
            return False
        now = self._server.ticks
        if now - self._began < PREFERENCE_PATIENCE * self._timing.election_ticks:
            return False
        progress = self._progress[preferred]
        fresh = now - progress.heard_at < self._timing.election_ticks
        keeps_up = progress.mode is Mode.REPLICATE and progress.match >= self._server.commit
        return fresh and keeps_up and not progress.suspicion

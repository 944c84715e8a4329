"""Handing leadership to another server (dissertation, section 3.10).

    begin ──> the target lacks entries ──> it holds all of the log: TimeoutNow ──> it stands, and wins by a newer term
      |                |                              |
      |                +------------------------------+──> an election timeout has passed: given up, the leader goes on
      +──> refused: no voter, suspect, not heard of lately

While it lasts the leader takes no proposals, so the target's log becomes the leader's and stays it; what
was taken before is not lost by it. Where one of the voters is preferred, whoever else leads hands over to that one as
soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raft.core.election_timer import Timing
from raft.core.errors import TransferRefused
from raft.core.messages import TimeoutNow
from raft.core.progress import Mode, Progress
from raft.core.server import Server

# In election timeouts: how long a leader leads before it thinks of the preferred one, and how long it waits after that
# came to nothing.
PREFERENCE_PATIENCE = 8

# Which of these voters is to lead, the same on all servers; 0: whoever does.
Prefer = Callable[[tuple[int, ...]], int]


def nobody(_: tuple[int, ...]) -> int:
    return 0


class Transfer:
    __slots__ = ("_began", "_prefer", "_progress", "_server", "_timing", "to")

    def __init__(self, server: Server, progress: Mapping[int, Progress], timing: Timing, prefer: Prefer) -> None:
        self._server = server
        self._progress = progress
        self._timing = timing
        self._prefer = prefer
        # The tick at which the last one began; before the first, the leadership.
        self._began = server.ticks
        # The target; 0: none is under way.
        self.to = 0

    def begin(self, to: int) -> None:
        server, progress = self._server, self._progress.get(to)
        if to == server.node:
            raise TransferRefused(f"node {to} leads already")
        if progress is None or to not in server.voters:
            raise TransferRefused(f"node {to} is no voter of this shard")
        if progress.suspicion:
            raise TransferRefused(f"node {to} may have lost entries in a crash and is catching up")
        if server.ticks - progress.heard_at >= self._timing.election_ticks:
            raise TransferRefused(f"node {to} does not answer")
        if to != self.to:  # asked for again, it does not last longer
            self.to, self._began = to, server.ticks
        self.heard(to)

    def tick(self) -> None:
        if self.to and self._server.ticks - self._began >= self._timing.election_ticks:
            self.to = 0
        if not self.to and (preferred := self._prefer(self._server.voters)) and self._wants(preferred):
            self.begin(preferred)

    def heard(self, node: int) -> None:
        """That node holds more than before."""
        if node == self.to and self._holds_all(node):
            self._tell(node)

    def heartbeat(self) -> None:
        """The message may have been lost."""
        if self.to:
            self.heard(self.to)

    def hand_to_anybody(self) -> None:
        """The leader leaves: one of those that hold its whole log stands at once. Without one, time decides."""
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
        """Whether the preferred leader is another one, which keeps up."""
        if preferred not in self._server.voters or preferred == self._server.node:
            return False
        now = self._server.ticks
        if now - self._began < PREFERENCE_PATIENCE * self._timing.election_ticks:
            return False
        progress = self._progress[preferred]
        fresh = now - progress.heard_at < self._timing.election_ticks
        keeps_up = progress.mode is Mode.REPLICATE and progress.match >= self._server.commit
        return fresh and keeps_up and not progress.suspicion

"""Handover: a leader gives leadership to another voter, the target (dissertation, section 3.10).

    begin ──> the target lacks entries ──> it holds the whole log: TimeoutNow ──> it stands, and wins in a newer term
      |                |                              |
      |                +------------------------------+──> an election timeout passes: the leader gives up and leads on
      +──> refused: the target is not a voter, is a suspect, diverges, takes no writes, or was not heard lately

During a handover the leader accepts no proposals, so the target's log can become equal to the leader's log. Proposals
from before the handover are not lost. A shard can have a preferred leader. If another voter leads the shard, it hands
leadership over as soon as the preferred leader's log keeps up with its own log, but not before it has led for a while
(PREFERENCE_PATIENCE). A leader whose disk has no room for new data hands leadership to a voter whose disk has room.
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

# A leader without room for new data waits this many election timeouts after its election, and after a handover that
# failed. Between two handovers an operator can remove old entries.
ROOM_PATIENCE = 2


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
        if progress.refuses_writes:
            raise TransferRefused(f"node {to} takes no writes, because its disk is full or has failed")
        if server.ticks - progress.heard_at >= self._timing.election_ticks:
            raise TransferRefused(f"node {to} does not answer")
        if to != self.to:  # a repeated request does not extend the time limit
            self.to, self._began = to, server.ticks
        self.heard(to)

    def tick(self) -> None:
        """Give up a handover that takes too long. Begin a handover if this server has no room for new data and another
        voter has, or if the preferred leader's log keeps up."""
        if self.to and self._server.ticks - self._began >= self._timing.election_ticks:
            self.to = 0
        if not self.to and (target := self._with_room() or self._preferred()):
            self.begin(target)

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
        """Tell one voter that holds the whole log to stand for election at once, because this leader steps down. Prefer
        a voter that takes writes. Do nothing if no voter holds the whole log."""
        able = [node for node in self._others if self._holds_all(node)]
        if able:
            self._tell(min(able, key=lambda node: self._progress[node].refuses_writes))

    def _holds_all(self, node: int) -> bool:
        progress = self._progress[node]
        return not progress.suspicion and progress.match == self._server.log.last_index

    def _tell(self, node: int) -> None:
        server = self._server
        server.send(TimeoutNow(server.node, node, server.term))

    @property
    def _others(self) -> list[int]:
        return [node for node in self._server.voters if node != self._server.node]

    def _with_room(self) -> int:
        """Return the voter to which this leader must hand over because its own disk has no room for new data. Return 0
        if this leader has room, or no voter that can lead has."""
        if self._server.takes_writes or not self._is_patient(ROOM_PATIENCE):
            return 0
        able = [node for node in self._others if self._can_lead(node)]
        return max(able, key=lambda node: self._progress[node].match, default=0)

    def _preferred(self) -> int:
        """Return the preferred leader if this leader should hand over to it now, otherwise 0."""
        preferred = self._prefer(self._server.voters)
        wanted = preferred in self._others and self._is_patient(PREFERENCE_PATIENCE) and self._can_lead(preferred)
        return preferred if wanted else 0

    def _is_patient(self, timeouts: int) -> bool:
        """Return True if the last handover, or the election of this leader, is so many election timeouts ago."""
        return self._server.ticks - self._began >= timeouts * self._timing.election_ticks

    def _can_lead(self, node: int) -> bool:
        """Return True if leadership can be handed to this voter: it answers, it takes writes, it is not a suspect, it
        does not diverge, and its log keeps up."""
        progress = self._progress[node]
        fresh = self._server.ticks - progress.heard_at < self._timing.election_ticks
        keeps_up = progress.mode is Mode.REPLICATE and progress.match >= self._server.commit
        sound = not progress.suspicion and not progress.diverges and not progress.refuses_writes
        return fresh and keeps_up and sound

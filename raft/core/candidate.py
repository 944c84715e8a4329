"""A candidate: it asks for votes (section 5.2), or first whether it would get them (pre-vote: dissertation, 9.6).

The one idea: a pre-candidate changes nothing, neither its term nor anyone's vote; so a node that comes back from a
partition does not depose a working leader. Must not know: other roles, how votes are given.
"""

from __future__ import annotations

from raft.core.election_timer import ElectionTimer
from raft.core.messages import VoteRequest, VoteResponse
from raft.core.quorum import Outcome, outcome
from raft.core.ready import Role
from raft.core.server import Server


class Candidate:
    __slots__ = ("_pre", "_server", "_timer", "_votes", "role")

    leader = 0
    hears_leader = False

    def __init__(self, server: Server, timer: ElectionTimer, *, pre: bool) -> None:
        self._server = server
        self._timer = timer
        self._pre = pre
        self.role = Role.PRE_CANDIDATE if pre else Role.CANDIDATE
        # The first answer of each voter counts, repeats do not. Its own vote is among them only once it is saved.
        self._votes: dict[int, bool] = {}

    def stand(self) -> Role | None:
        """Ask everyone. A real candidate has begun its term and voted for itself just before."""
        server = self._server
        assert self._pre or server.voted_for == server.node, "a candidate votes for itself"
        for voter in server.voters:
            if voter != server.node:
                self._ask(voter)
        if self._pre:
            self._votes[server.node] = True
        return self._decide()

    def tick(self) -> Role | None:
        """No decision in time: begin anew, with the pre-vote."""
        if not self._timer.tick():
            return None
        return Role.PRE_CANDIDATE if self._server.may_stand else Role.FOLLOWER

    def on_vote_saved(self) -> Role | None:
        """The vote for itself is durable, so it counts."""
        if self._pre:
            return None
        self._votes[self._server.node] = True
        return self._decide()

    def on_vote_response(self, response: VoteResponse) -> Role | None:
        if response.pre != self._pre:
            return None
        self._votes.setdefault(response.sender, response.granted)
        return self._decide()

    def _ask(self, voter: int) -> None:
        server = self._server
        term = server.term + 1 if self._pre else server.term
        server.send(VoteRequest(server.node, voter, term, server.log.last_index, server.log.last_term, self._pre))

    def _decide(self) -> Role | None:
        match outcome(self._server.voters, self._votes):
            case Outcome.WON:
                return Role.CANDIDATE if self._pre else Role.LEADER
            case Outcome.LOST:
                return Role.FOLLOWER
            case Outcome.PENDING:
                return None

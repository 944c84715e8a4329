"""A candidate: it asks for votes (section 5.2), or first whether it would get them (pre-vote: dissertation, 9.6).

The one idea: a pre-candidate changes nothing, neither its term nor anyone's vote; so a node that comes back from a
partition does not depose a working leader. Must not know: other roles, how votes are given.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.core.election_timer import ElectionTimer
from raft.core.messages import VoteRequest, VoteResponse
from raft.core.quorum import VoteOutcome, outcome
from raft.core.ready import Role
from raft.core.server import Server


@dataclass(frozen=True, slots=True)
class Campaign:
    """Why and how a server stands."""

    # It only asks whether it would be elected.
    pre: bool = False
    # The leader asked it to stand.
    transfer: bool = False
    # Every voter must vote for it, and suspects may (see suspicion.py).
    unanimous: bool = False


PRE_VOTE = Campaign(pre=True)


class Candidate:
    __slots__ = ("_server", "_timer", "_votes", "campaign", "role")

    leader = 0
    hears_leader = False

    def __init__(self, server: Server, timer: ElectionTimer, campaign: Campaign) -> None:
        self._server = server
        self._timer = timer
        self.campaign = campaign
        self.role = Role.PRE_CANDIDATE if campaign.pre else Role.CANDIDATE
        # The first answer of each voter counts, repeats do not: whether it was granted, and whether by a suspect. The
        # own vote is among them only once it is saved.
        self._votes: dict[int, tuple[bool, bool]] = {}

    @property
    def needs_all(self) -> bool:
        """Whether it would be elected by all voters, and not without its suspects."""
        return self._by_majority() is not VoteOutcome.WON

    def stand(self) -> Role | None:
        """Ask everyone. A real candidate has begun its term and voted for itself just before."""
        server = self._server
        assert self.campaign.pre or server.voted_for == server.node, "a candidate votes for itself"
        for voter in server.voters:
            if voter != server.node:
                self._ask(voter)
        if self.campaign.pre:
            self._vote_for_itself()
        return self._decide()

    def tick(self) -> Role | None:
        """No decision in time: begin anew, with the pre-vote."""
        if not self._timer.tick():
            return None
        return Role.PRE_CANDIDATE if self._server.may_stand else Role.FOLLOWER

    def on_vote_saved(self) -> Role | None:
        """The vote for itself is durable, so it counts."""
        if self.campaign.pre:
            return None
        self._vote_for_itself()
        return self._decide()

    def on_vote_response(self, response: VoteResponse) -> Role | None:
        if response.pre != self.campaign.pre:
            return None
        self._votes.setdefault(response.sender, (response.granted, response.suspicion != 0))
        return self._decide()

    def _vote_for_itself(self) -> None:
        self._votes[self._server.node] = (True, self._server.suspicion != 0)

    def _ask(self, voter: int) -> None:
        server, campaign = self._server, self.campaign
        server.send(
            VoteRequest(
                server.node,
                voter,
                server.term + 1 if campaign.pre else server.term,
                server.log.last_index,
                server.log.last_term,
                pre=campaign.pre,
                transfer=campaign.transfer,
                unanimous=campaign.unanimous,
            )
        )

    def _decide(self) -> Role | None:
        votes = {voter: granted for voter, (granted, _) in self._votes.items()}
        by_all = outcome(self._server.voters, votes, needed=len(self._server.voters))
        by_majority = VoteOutcome.LOST if self.campaign.unanimous else self._by_majority()
        if VoteOutcome.WON in (by_all, by_majority):
            return Role.CANDIDATE if self.campaign.pre else Role.LEADER
        return None if VoteOutcome.PENDING in (by_all, by_majority) else Role.FOLLOWER

    def _by_majority(self) -> VoteOutcome:
        """Without the suspects."""
        votes = {voter: granted and not suspect for voter, (granted, suspect) in self._votes.items()}
        return outcome(self._server.voters, votes)

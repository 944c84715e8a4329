"""The candidate: a server that asks the voters for their votes (section 5.2), after a pre-vote (dissertation, 9.6).

A pre-candidate only asks whether it would win an election. A pre-vote changes no term and no vote, so a node that
returns from a partition does not depose a working leader.
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
    """The kind of an election: whether it is a pre-vote, whether the leader asked for it, and whether it needs the
    votes of all voters."""

    # A pre-vote: the server only asks whether it would be elected.
    pre: bool = False
    # The leader asked this server to stand (handover).
    transfer: bool = False
    # Every voter must vote for it, and suspects may (see suspicion.py).
    unanimous: bool = False


PRE_VOTE = Campaign(pre=True)


class Candidate:
    """`Candidate` is one election in which one server stands. The methods of `Candidate` return the next role of
    the server, or None while the election is not decided."""

    __slots__ = ("_server", "_timer", "_votes", "campaign", "role")

    leader = 0
    hears_leader = False

    def __init__(self, server: Server, timer: ElectionTimer, campaign: Campaign) -> None:
        self._server = server
        self._timer = timer
        self.campaign = campaign
        self.role = Role.PRE_CANDIDATE if campaign.pre else Role.CANDIDATE
        # By voter: (granted, voter is a suspect). Only the first response of each voter counts.
        # The candidate's own vote is here only after it was saved.
        self._votes: dict[int, tuple[bool, bool]] = {}

    @property
    def needs_all(self) -> bool:
        """Return True if this candidate can win only with the votes of suspects. A candidate that can win only with
        the votes of suspects needs the votes of all voters."""
        return self._by_majority() is not VoteOutcome.WON

    def stand(self) -> Role | None:
        """Ask all voters for their votes. A candidate has begun a new term and voted for itself before this call. A
        pre-candidate stays in its present term."""
        server = self._server
        assert self.campaign.pre or server.voted_for == server.node, "a candidate votes for itself"
        for voter in server.voters:
            if voter != server.node:
                self._ask(voter)
        if self.campaign.pre:
            self._vote_for_itself()
        return self._decide()

    def tick(self) -> Role | None:
        """After an election timeout without a decision, start a new pre-vote. A server that stands late lets the others
        stand first again."""
        if not self._timer.tick():
            return None
        server = self._server
        return Role.PRE_CANDIDATE if server.may_stand and not server.stands_late else Role.FOLLOWER

    def on_vote_saved(self) -> Role | None:
        """Record that this candidate's vote for itself is on the disk, so that the vote counts from now on."""
        if self.campaign.pre:
            return None
        self._vote_for_itself()
        return self._decide()

    def on_vote_response(self, response: VoteResponse) -> Role | None:
        """Count the first response of each voter. Return the next role of the server if the response decides the
        election, otherwise None."""
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
        """Return the outcome of the election if the votes of suspects do not count."""
        votes = {voter: granted and not suspect for voter, (granted, suspect) in self._votes.items()}
        return outcome(self._server.voters, votes)

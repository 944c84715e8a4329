"""Whom a server votes for (sections 5.2 and 5.4.1).

The one idea: one vote for each term, and only for a log that is at least as up-to-date as the own one; so whoever wins
has every committed entry. Must not know: roles, timers, how the vote is kept.
"""

from __future__ import annotations

from raft.core.messages import VoteRequest
from raft.core.server import Server


def grants(server: Server, request: VoteRequest, leader: int) -> bool:
    """Whether `server`, which knows `leader` in its term (0: none), grants that request. What a suspect says to a
    pre-vote its answer marks as such; a vote it gives only where every voter does."""
    if not server.log.is_no_newer_than(request.last_index, request.last_term):
        return False
    if request.pre:
        return request.term > server.term
    if request.term != server.term or (server.suspicion and not request.unanimous):
        return False
    return server.voted_for == request.sender or (server.voted_for == 0 and leader == 0)

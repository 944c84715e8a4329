"""The rule by which a server grants its vote (sections 5.2 and 5.4.1).

A server votes once in each term, and only for a candidate whose log is at least as up-to-date as the server's own log.
From this it follows that the winner of an election has every committed entry.
"""

from __future__ import annotations

from raft.core.messages import VoteRequest
from raft.core.server import Server


def grants(server: Server, request: VoteRequest, leader: int) -> bool:
    """Return True if `server` grants the vote request. `leader` is the leader of the present term, as far as `server`
    knows it, or 0.

    A suspect may grant a pre-vote, and its answer says that it is a suspect. A suspect grants a vote only if the
    request is unanimous, which means that every voter granted the pre-vote. A server never votes for a server from
    which it diverges."""
    if request.sender in server.divergences:
        return False
    if not server.log.is_no_newer_than(request.last_index, request.last_term):
        return False
    if request.pre:
        return request.term > server.term
    if request.term != server.term or (server.suspicion and not request.unanimous):
        return False
    return server.voted_for == request.sender or (server.voted_for == 0 and leader == 0)

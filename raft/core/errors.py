"""Why the core does not take a request. Both are ordinary answers: nothing is broken and nothing was changed."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 (an answer, not a failure)
    """Base: the request was not taken, and may be made again (`retriable`)."""

    retriable = True


class NotLeader(Refusal):
    """Only the leader proposes and reads. `leader` is its id, 0 when unknown: ask there, or later."""

    def __init__(self, leader: int) -> None:
        super().__init__(f"this node does not lead; ask node {leader}" if leader else "no leader is known; ask again")
        self.leader = leader


class Busy(Refusal):
    """The uncommitted tail is full; propose again when some of it has been committed."""

    def __init__(self, uncommitted_bytes: int) -> None:
        super().__init__(f"{uncommitted_bytes} bytes wait to be committed; propose again later")
        self.uncommitted_bytes = uncommitted_bytes

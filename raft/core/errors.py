"""Why the core does not take a request: refusals, ordinary answers that say that nothing was changed; and the one thing
that it cannot go on with."""

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


class Crowded(Refusal):
    """As many proposals, or reads, wait as may; come again when some of them are done."""

    def __init__(self, what: str, count: int) -> None:
        super().__init__(f"{count} {what} wait for a majority")


class Stalled(Refusal):
    """The disk does not keep up; propose again when it does."""


class Transferring(Refusal):
    """Leadership is being handed to `to`; propose again when that has come about, or was given up."""

    def __init__(self, to: int) -> None:
        super().__init__(f"leadership is being handed to node {to}; propose again shortly")
        self.to = to


class TransferRefused(Refusal):
    """That node cannot be made the leader now; this one goes on leading."""

    retriable = False


class ChangeRefused(Refusal):
    """That configuration can never follow the present one."""

    retriable = False


class ChangeInProgress(Refusal):
    """Another change, or the first entry of this leader, is not committed yet; ask again when it is."""


class Diverged(Exception):  # noqa: N818 (as the others here)
    """The leader does not have what this server knows to be committed. That can only be after the others accepted a
    loss without it (see suspicion.py): this server's log is another one from `index` on, and it must not go on."""

    def __init__(self, index: int, term: int) -> None:
        super().__init__(f"the leader of term {term} lacks the committed entry {index}")
        self.index = index

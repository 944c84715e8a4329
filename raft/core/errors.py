"""Defines the refusals of the core, and the error `InvalidMessage`. A refusal is not a fault of the server. A refused
request has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.core.divergence import Divergence


class Refusal(Exception):  # noqa: N818 (an answer, not a failure)
    """Base class of all refusals: the core refused the request and changed nothing. If `retriable` is true, the
    same request can succeed later."""

    retriable = True


class NotLeader(Refusal):
    """This server is not the leader. `leader` is the leader's node id, or 0 if no leader is known."""

    def __init__(self, leader: int) -> None:
        super().__init__(f"this node does not lead; ask node {leader}" if leader else "no leader is known; ask again")
        self.leader = leader


class Busy(Refusal):
    """Too many bytes of proposals wait to be committed. Propose the entry again after some of the waiting bytes are
    committed."""

    def __init__(self, uncommitted_bytes: int) -> None:
        super().__init__(f"{uncommitted_bytes} bytes wait to be committed; propose again later")
        self.uncommitted_bytes = uncommitted_bytes


class Crowded(Refusal):
    """Too many proposals or reads are waiting. Repeat the request after some proposals or reads have finished."""

    def __init__(self, what: str, count: int) -> None:
        super().__init__(f"{count} {what} wait for a majority; try again later")


class Stalled(Refusal):
    """The disk is too slow to take more entries. Propose the entry again later."""


class Transferring(Refusal):
    """The leader is handing leadership to node `to`. Propose the entry again when the handover has ended."""

    def __init__(self, to: int) -> None:
        super().__init__(f"leadership is being handed to node {to}; propose again shortly")
        self.to = to


class TransferRefused(Refusal):
    """The requested node cannot become the leader now. The present leader keeps leading."""

    retriable = False


class ChangeRefused(Refusal):
    """The requested configuration can never follow the present configuration."""

    retriable = False


class ChangeInProgress(Refusal):
    """The change is refused because an earlier configuration change, or this leader's first entry, is not committed
    yet. Request the change again later."""


class Diverged(Refusal):
    """This server diverges from other members (see divergence.py), so it takes no entries of clients. Changes of
    members are still possible. `divergences` has one proof for each of these members."""

    retriable = False

    def __init__(self, divergences: Sequence[Divergence]) -> None:
        super().__init__("; ".join(str(each) for each in divergences))
        self.divergences = tuple(divergences)


class InvalidMessage(Exception):  # noqa: N818 (as the others here)
    """No correct server can have sent this message (see message_checks.py). The core has refused the message and
    changed nothing. `sender` is the node in whose name the message came."""

    def __init__(self, sender: int, reason: str) -> None:
        super().__init__(f"node {sender} sent a message that no correct node sends: {reason}")
        self.sender = sender

"""Who made a call. Every gRPC method and every HTTP path runs with one `Caller`.

A node without authentication serves everybody: its callers are `ANYBODY`, who has every right.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from ledger.state.access_table import DelegatedToken


@dataclass(frozen=True, slots=True)
class Caller:
    """A proven user. `since` is the index of the entry that made the user's present password: after a new password, the
    caller does not count any more."""

    user: str
    since: int = 0
    # If the caller proved itself with a delegated token.
    token: DelegatedToken | None = None
    # The node that calls for the user, or 0 if the user calls.
    node: int = 0
    # True: the node has no authentication, and asks for no rights.
    has_every_right: bool = False

    def __str__(self) -> str:
        user = self.user if self.token is None else f"{self.user} (by a delegated token)"
        return f"{user} (by node {self.node})" if self.node else user


ANYBODY = Caller("anybody", has_every_right=True)
# Whoever may open the local socket of the node (ledger/local_socket.py).
LOCAL_OPERATOR = Caller("an operator on this machine", has_every_right=True)

# A node that was removed from the cluster. It may ask who the members are, and sees no topics.
REMOVED_NODE = Caller("a node that was removed")

# The caller of the present call, which the check at the rim sets before it runs the method.
_present: ContextVar[Caller] = ContextVar("caller", default=ANYBODY)


def present_caller() -> Caller:
    return _present.get()


def set_present_caller(caller: Caller) -> None:
    """Set the caller for the present task."""
    _present.set(caller)

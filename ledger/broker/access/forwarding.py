"""Names the user for whom this node calls other nodes.

The node decides first: a user that was removed, or that has a new password, gets no further. Then the called node
decides again, by its own replica of shard 0. `ForwardedCaller.policy_index` is the last change of users and rules that
this node knows, so the called node does not refuse by rules that are older than those of this node.
"""

from __future__ import annotations

from ledger.access.forwarded import ForwardedCaller
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.replicas import Replicas
from ledger.errors import BusyError, PermissionDeniedError
from ledger.state.feature_levels import FORWARDED_CALLERS


class Forwarding:
    """Names the callers of one node."""

    def __init__(self, replicas: Replicas, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def named(self, caller: Caller) -> ForwardedCaller:
        """Return what the next call for this caller says. Raises AuthenticationError if the caller's proof has ended,
        UnavailableError if this node cannot know, and BusyError while a node runs an older version."""
        if caller.has_every_right or caller.node:
            # An operator at the socket of this node is nobody on other nodes, and a node passes on only its own users.
            raise PermissionDeniedError(f"this node cannot call other nodes for {caller}: use a user with a password")
        self._authorizer.check_caller(caller)
        if self._replicas.topics.state.feature_level < FORWARDED_CALLERS:
            raise BusyError(
                "this node cannot call other nodes for users yet, because a node runs an older version or cannot be "
                "reached: start and upgrade all nodes, and try again"
            )
        token = caller.token.digest if caller.token is not None else b""
        return ForwardedCaller(caller.user, caller.since, token, self._authorizer.access.changed_at)

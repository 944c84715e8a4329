"""Decides whether a caller has a right, by the users and rules in this node's replica of shard 0.

A replica can be stale: a node that is cut off does not learn that a right was revoked. So a node refuses all callers
that need rights when its rules were last confirmed more than `STALE_S` ago. They are confirmed at a moment at which the
node leads shard 0, or follows its leader and has applied an entry of that leader. A node that was just started has
confirmed nothing yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.access.rules import MAX_NAME_LENGTH, Action, Resource, Verdict, decide
from ledger.broker.access.callers import REMOVED_NODE, Caller
from ledger.broker.replicas import Replicas
from ledger.broker.up_to_date import is_up_to_date
from ledger.errors import AuthenticationError, PermissionDeniedError, UnavailableError
from ledger.state.access_table import AccessTable

# How long a node decides about rights without a leader of shard 0.
STALE_S = 30.0
# How often the node looks whether its rules are confirmed. Between two looks, calls do not look again at once.
LOOK_S = 1.0
LOOK_AGAIN_S = 0.25
# A process that did not look for this time stood still, for example with its machine. Then its leader is one of the
# past, so for a time nothing is confirmed: until a leader that is gone would have been forgotten.
STANDSTILL_S = 5.0
DOUBT_S = 10.0
# The decisions that are kept until the rules change.
MAX_KEPT = 20_000

ENDED = "the proof of this connection has ended, because the user was removed or got a new password: authenticate again"


class Authorizer:
    """Decides about rights on one node."""

    def __init__(self, replicas: Replicas, *, now_ms: Callable[[], int], monotonic_ms: Callable[[], float]) -> None:
        self._replicas = replicas
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        # When the rules were last confirmed; None after the start.
        self._confirmed_ms: float | None = None
        self._looked_ms = monotonic_ms()
        self._doubts_until_ms = 0.0
        # Decisions by the rules of `_decided_at`.
        self._decided: dict[tuple[str, Action, Resource], bool] = {}
        self._decided_at = -1

    @property
    def access(self) -> AccessTable:
        """The users and rules as this node knows them. Raises UnavailableError before shard 0 has started."""
        return self._replicas.topics.state.access

    def fresh_access(self) -> AccessTable:
        """Return the users and rules for a proof. Raises UnavailableError if this node cannot know them: a node that
        has just started would take a new user or token for an unknown one."""
        access = self.access
        self._check_fresh()
        return access

    async def run(self) -> None:
        """Look again and again whether the rules are confirmed, until the task is cancelled."""
        while True:
            self._look(self._monotonic_ms())
            await asyncio.sleep(LOOK_S)

    def check(self, caller: Caller, action: Action, resource: Resource, topic_id: int = 0) -> None:
        """Raise PermissionDeniedError if the caller does not have the right, and the errors of `check_caller`. If the
        caller named a topic by `topic_id`, the error has the topic's name only if the caller may see the topic."""
        if not self.may(caller, action, resource):
            if topic_id and not self.may(caller, "describe", resource):
                raise PermissionDeniedError(f"User {caller} has no right to {action} the topic with the id {topic_id}.")
            raise PermissionDeniedError(
                f"User {caller} has no right to {action} {resource}: an administrator can grant it with "
                f"`ledgermq acl grant {caller.user} {action} {resource}`."
            )

    def may(self, caller: Caller, action: Action, resource: Resource) -> bool:
        """Return True if the caller has the right. Raises the errors of `check_caller`."""
        if caller.has_every_right:
            return True
        if caller is REMOVED_NODE:
            return False
        self.check_caller(caller)
        if len(resource.name) > MAX_NAME_LENGTH:
            # Callers choose names, and decisions are kept. No rule looks at more of a name than this.
            resource = Resource(resource.kind, resource.name[: MAX_NAME_LENGTH + 1])
        access = self.access
        if access.changed_at != self._decided_at or len(self._decided) >= MAX_KEPT:
            self._decided.clear()
            self._decided_at = access.changed_at
        key = (caller.user, action, resource)
        allowed = self._decided.get(key)
        if allowed is None:
            allowed = self._decided[key] = decide(access.rules(caller.user), action, resource).allowed
        token = caller.token
        return allowed and (token is None or decide(token.rules, action, resource).allowed)

    def check_caller(self, caller: Caller) -> None:
        """Raise AuthenticationError if the caller's proof has ended, PermissionDeniedError if a node calls for the user
        that was removed, and UnavailableError if this node cannot know."""
        if caller.has_every_right:
            return
        access = self.fresh_access()
        if caller.node and not self._replicas.lists_node(caller.node):
            raise PermissionDeniedError(f"node {caller.node} was removed from this cluster, so it calls for nobody")
        user = access.users.get(caller.user)
        if user is None or user.since != caller.since:
            raise AuthenticationError(ENDED)
        token = caller.token
        if token is not None and (token.digest not in access.tokens or token.expires_ms <= self._now_ms()):
            raise AuthenticationError("the delegated token has ended: ask for a new one")

    def verdict(self, user: str, action: Action, resource: Resource) -> Verdict:
        """Decide about a right of a user by name. Raises UnknownUserError."""
        self.access.require(user)
        return decide(self.access.rules(user), action, resource)

    def not_ready(self) -> str:
        """Return the reason why this node refuses all callers that need rights, or "" if it decides about them."""
        now_ms = self._monotonic_ms()
        if now_ms - self._looked_ms > LOOK_AGAIN_S * 1000 or self._confirmed_ms is None:
            self._look(now_ms)
        if self._confirmed_ms is None or now_ms - self._confirmed_ms > STALE_S * 1000:
            known_ms = self._confirmed_ms
            time = "since its start" if known_ms is None else f"for {(now_ms - known_ms) / 1000:.0f} s"
            return f"this node has followed no leader of shard 0 {time}, so its users and rules may be old"
        return ""

    def _check_fresh(self) -> None:
        if reason := self.not_ready():
            raise UnavailableError(
                f"{reason}. Ask another node, start a majority of the nodes, or use `--local` on the node's machine"
            )

    def _look(self, now_ms: float) -> None:
        if now_ms - self._looked_ms > STANDSTILL_S * 1000:
            self._doubts_until_ms = now_ms + DOUBT_S * 1000
        self._looked_ms = now_ms
        first = self._replicas.first
        if now_ms >= self._doubts_until_ms and first is not None and is_up_to_date(first):
            self._confirmed_ms = now_ms

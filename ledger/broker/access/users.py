"""Changes users and rules. Each change is one entry of shard 0, which the leader of shard 0 proposes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence

from ledger.access.rules import Rule
from ledger.broker.access.callers import Caller
from ledger.broker.access.proofs import digest_of, token_text
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.errors import BusyError, InvalidArgumentError
from ledger.state.access_table import AccessTable
from ledger.state.commands import AccessCommand, DelegateToken
from ledger.state.feature_levels import ACCESS_CONTROL

TOKEN_BYTES = 32


class Users:
    """The users of the cluster, for the leader of shard 0. Every method raises LedgerError if this node does not lead
    shard 0."""

    def __init__(self, replicas: Replicas, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._replicas = replicas
        self._random_bytes = random_bytes

    async def read(self) -> AccessTable:
        """Return the newest users and rules."""
        replica = self._replicas.topics
        await replica.confirm_still_leading()
        return replica.state.access

    async def change(self, command: AccessCommand) -> int:
        """Propose a change, and return its result when it is committed: how many rules were revoked, or 0. Raises
        LedgerError, for example UnknownUserError."""
        replica = self._replicas.topics
        check_level(replica)
        result: int | None = await asyncio.shield(replica.propose_checked(command))
        return result or 0

    async def delegate(self, caller: Caller, rules: Sequence[Rule], ttl_ms: int) -> tuple[str, int]:
        """Return a new token with a part of the caller's rights, and the time in ms since 1970 when the token ends."""
        if caller.has_every_right:
            raise InvalidArgumentError("this node has no authentication, so no token is needed")
        if caller.token is not None:
            raise InvalidArgumentError("a delegated token cannot make another token: use the user's own connection")
        replica = self._replicas.topics
        check_level(replica)
        # Every user may ask without end, so what is surely refused becomes no entry of the log.
        replica.state.access.check_delegation(caller.user, replica.driver.now_ms())
        token = token_text(self._random_bytes(TOKEN_BYTES))
        own = tuple(Rule(caller.user, rule.action, rule.resource, rule.deny) for rule in rules)
        await self.change(DelegateToken(digest_of(token), caller.user, own, ttl_ms))
        known = self._replicas.topics.state.access.tokens.get(digest_of(token))
        if known is None:
            raise BusyError("the token has ended already: ask for a longer time")
        return token, known.expires_ms


def check_level(replica: BrokerReplica) -> None:
    """Raise LedgerError if the cluster cannot have users yet."""
    replica.check_leads(0)
    if replica.state.feature_level < ACCESS_CONTROL:
        raise BusyError(
            "the cluster has no users yet, because a node runs an older version or cannot be reached: start and "
            "upgrade all nodes, and try again"
        )

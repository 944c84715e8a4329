"""Accepts calls that a node makes for a user.

    metadata "ledgermq-caller"            ──>  the user, and the entry by which the calling node has decided
    the proof of the node in the call     ──>  no node, or a removed one: refused
    this node's replica of shard 0        ──>  applied up to that entry? if not within `WAIT_S`: UNAVAILABLE, try again
    users and tokens in that replica      ──>  the caller, with the rights of the user, or of the user's token

The header alone proves nothing: it counts only beside the proof of a node that shard 0 lists. The user's password, the
user's rules and the token's rules come from this node's own replica.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from grpc import aio

from ledger.access.forwarded import CALLER_KEY, ForwardedCaller
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.replicas import Replicas
from ledger.errors import AuthenticationError, InvalidArgumentError, PermissionDeniedError, UnavailableError

UNPROVEN = "only a node of this cluster may call for a user, and the call has no valid proof of a node"
# How long a call waits for the entry by which the calling node has decided, and how often it looks.
WAIT_S = 2.0
LOOK_S = 0.01


class NodeCallers(Protocol):
    """An interface: tells which calls come from nodes of the cluster."""

    @property
    def are_needed(self) -> bool:
        """False if nodes do not prove themselves."""

    def node_of(self, context: Any) -> int:
        """Return the number of the node that makes the call, or 0 if the caller has not proven that it is a node."""


class ForwardedCallers:
    """The users for whom other nodes call this node. `proofs` has the nodes that have proven themselves."""

    def __init__(self, replicas: Replicas, authorizer: Authorizer, proofs: NodeCallers) -> None:
        self._replicas = replicas
        self._authorizer = authorizer
        self._proofs = proofs

    async def caller(self, header: str, context: aio.ServicerContext[Any, Any]) -> Caller:
        """Return the user whom the header of a call names. Raises AuthenticationError if no node calls, or if the
        user's proof has ended, PermissionDeniedError if the node was removed, and UnavailableError if this node does
        not know the users and rules by which the calling node has decided."""
        node = self._proofs.node_of(context) if self._proofs.are_needed else 0
        if not node:
            raise AuthenticationError(UNPROVEN)
        if not self._replicas.lists_node(node):
            raise PermissionDeniedError(f"node {node} was removed from this cluster, so it calls for nobody")
        try:
            named = ForwardedCaller.of_header(header)
        except InvalidArgumentError as error:
            raise PermissionDeniedError(f"node {node} calls for somebody, but {error}: upgrade the nodes") from error
        await self._reach(named.policy_index)
        caller = self._known(named, node)
        self._authorizer.check_caller(caller)
        return caller

    def _known(self, named: ForwardedCaller, node: int) -> Caller:
        if not named.token:
            return Caller(named.user, named.since, node=node)
        token = self._authorizer.access.tokens.get(named.token)
        if token is None or (token.user, token.since) != (named.user, named.since):
            raise AuthenticationError("the delegated token is unknown, or it has ended: ask for a new one")
        return Caller(named.user, named.since, token, node)

    async def _reach(self, index: int) -> None:
        """Wait until this node has applied the entry `index` of shard 0. Raises UnavailableError."""
        replica = self._replicas.topics
        if replica.driver.applied >= index:
            return
        try:
            async with asyncio.timeout(WAIT_S):
                while replica.driver.applied < index:  # noqa: ASYNC110 - committed entries wake nobody
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise UnavailableError(
                f"this node has applied entry {replica.driver.applied} of shard 0, and the calling node decided by "
                f"entry {index}: try again shortly, or see with `ledgermq cluster info` why this node is behind"
            ) from None


def header_of(context: aio.ServicerContext[Any, Any]) -> str:
    """Return the header that names the user for whom the call is made, or "" if the caller calls for itself. The last
    one counts if there are several."""
    found = ""
    for key, value in context.invocation_metadata() or ():
        if key == CALLER_KEY:
            found = str(value)
    return found

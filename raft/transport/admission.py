"""The check that a caller of Raft's streams is still a member, when a stream opens and again with each message.

A proof (node_proof.py) shows which node calls. It does not show that the node is a member: a node that was removed
still has its certificate, or the cluster secret. The node knows the members of its shards, and implements `Admission`.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

import grpc
from grpc import aio

from raft.transport.refused_messages import RefusedMessages


class Admission(Protocol):
    """An interface: decides which nodes may send Raft messages. Without a shard, the question is about all shards."""

    def is_member(self, node: int, shard: int | None) -> bool:
        """Return True if this node knows `node` as a member, or knows no members yet. Returns at once."""

    async def refusal(self, node: int, shard: int | None) -> str:
        """Return why `node`, which this node does not know as a member, is refused, or "" if it is admitted."""


class EverybodyAdmitted:
    """Admits all nodes."""

    def is_member(self, node: int, shard: int | None) -> bool:
        return True

    async def refusal(self, node: int, shard: int | None) -> str:
        return ""


class CallerCheck:
    """Checks one caller. `stream` names the caller's stream or call in the log."""

    def __init__(
        self, admission: Admission, refused: RefusedMessages, sender: int, shard: int | None, stream: str
    ) -> None:
        self._admission = admission
        self._refused = refused
        self._sender = sender
        self._shard = shard
        self._stream = stream

    async def end_if_removed(self, context: aio.ServicerContext[Any, Any]) -> None:
        """End the call if the caller is not a member any more. The refusal is counted, and logged at most once a
        minute."""
        if self._admission.is_member(self._sender, self._shard):
            return
        if reason := await self._admission.refusal(self._sender, self._shard):
            self._refused.add(reason, self._stream)
            await refuse(context, reason)


async def refuse(context: aio.ServicerContext[Any, Any], reason: str) -> NoReturn:
    """End the call with FAILED_PRECONDITION, so that the caller retries slowly."""
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
    raise AssertionError("abort always raises")

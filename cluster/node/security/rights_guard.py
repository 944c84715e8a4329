"""Checks at the rim of a node that the caller of every gRPC method is proven, and has the rights that the method needs.

    metadata "authorization: Bearer TOKEN"  ──>  the session of this connection  ──>  the caller
    metadata "ledgermq-caller"              ──>  the user for whom a node calls (forwarded_callers.py)
    method and request                      ──>  the rights that are needed (ledger/broker/rpc/rights.py)
    caller and rights                       ──>  the method runs, UNAUTHENTICATED or PERMISSION_DENIED

A refusal names the right and not whether the topic or group exists. `RightsGuard` stands behind `RequestGuard`, so it
sees requests that were decoded, and `admit` refuses callers without proof before their requests are read. The methods
that nodes call on each other are not for clients; the transport checks whether the caller speaks in its own name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import grpc
from grpc import aio

from cluster.node.method_guard import Handler, MethodGuard
from cluster.node.security.forwarded_callers import ForwardedCallers, NodeCallers, header_of
from ledger.broker.access.audit import AuditLog
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import ANYBODY, REMOVED_NODE, Caller, set_present_caller
from ledger.broker.access.sessions import Sessions
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.rights import NEEDED, Needed
from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError, from_wire
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.rights")

Context = aio.ServicerContext[Any, Any]
Method = Callable[[Any, Context], Awaitable[Any]]

_BEARER = "Bearer "
# The transport checks the callers of all other services: raft.v1.Raft and raft.v1.NodeProof.
FOR_CLIENTS = "/ledger.v1."
FOR_NODES = "/raft.v1.Raft/"
UNPROVEN_NODE = "the call has no valid proof of a node of this cluster"
UNPROVEN = "the call has no valid token: authenticate this connection with a user and a password, or a certificate"
CANCELLED = "the call was cancelled before its end: the act may have been done"


class RightsGuard(MethodGuard):
    """The interceptor of a node's gRPC server. `proofs` has the nodes that have proven themselves. Without
    `authentication`, only the methods for nodes ask who the caller is.

    `call` and `stream` are the check without gRPC's server. The simulator uses them for its own server."""

    def __init__(
        self,
        replicas: Replicas,
        authorizer: Authorizer,
        sessions: Sessions,
        proofs: NodeCallers,
        *,
        authentication: bool,
        needed: Mapping[str, Needed] = NEEDED,
        everybody: Caller | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        audit: AuditLog | None = None,
    ) -> None:
        """If `everybody` is given, it is the caller of every call, and proves nothing. `monotonic_s` is the clock of
        the log lines, in seconds. `audit` is the audit log of the node; None: a new one."""
        super().__init__()
        self._everybody = everybody
        self._replicas = replicas
        self._authorizer = authorizer
        self._sessions = sessions
        self._proofs = proofs
        self._forwarded = ForwardedCallers(replicas, authorizer, proofs)
        self._authentication = authentication
        self._needed = needed
        self._refused_log = RareLog(log, monotonic_s)
        self._audit = audit or AuditLog(monotonic_s)

    async def admit(self, method: str, context: Context) -> None:
        """End the call if its caller is not proven, before its request is read."""
        needed = self._needed.get(method)
        try:
            if method.startswith(FOR_CLIENTS):
                await self._proven_caller(method, needed, context)
            elif method.startswith(FOR_NODES) and self._proofs.are_needed and not self._proofs.node_of(context):
                raise AuthenticationError(UNPROVEN_NODE)
        except LedgerError as error:
            await self._refuse(method, None, needed, None, error, context)

    def _guard(self, method: str, handler: Handler) -> Handler:
        if not method.startswith(FOR_CLIENTS):
            return handler
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self.stream(method, cast("Method", handler.stream_stream)),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self.call(method, cast("Method", handler.unary_unary)),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def call(self, method: str, behavior: Method) -> Method:
        """Return the method `behavior`, which takes one request, behind the check. `method` is its full name."""
        needed = self._needed.get(method)

        async def checked(request: Any, context: Context) -> Any:
            caller = await self._admit(method, needed, request, context)
            if needed is None or not needed.is_audited:
                return await behavior(request, context)
            return await self._audited(caller, method, behavior, request, context)

        return checked

    async def _audited(self, caller: Caller, method: str, behavior: Method, request: Any, context: Context) -> Any:
        """Run the method, and write one line to the audit log, whatever the end is. If the caller cancels the call, or
        its deadline ends, gRPC cancels this task, and the cluster may still do the act. Acts that the method surely
        refuses count as refused: every user may call some of these methods, without end."""
        peer = context.peer()
        outcome, record = CANCELLED, self._audit.record
        try:
            response = await behavior(request, context)
            outcome = ""
            if response.HasField("error"):
                outcome = response.error.message
                if not from_wire(response.error).retriable:
                    record = self._audit.record_refused
            return response
        except Exception as error:  # the text of a defect may contain secrets, so the line has only its type
            outcome = f"the node failed with {type(error).__name__}: the act may have been done"
            raise
        finally:
            record(caller, peer, method, request, outcome)

    def stream(self, method: str, behavior: Method) -> Method:
        """Return the method `behavior`, which takes a stream of requests, behind the check."""
        needed = self._needed.get(method)

        async def checked(requests: Any, context: Context) -> None:
            await self._admit(method, needed, None, context)
            await behavior(requests, context)

        return checked

    async def _admit(self, method: str, needed: Needed | None, request: Any, context: Context) -> Caller:
        """Return the caller, whom the present task has from now on. End the call if the caller is not proven, or
        lacks a right."""
        caller: Caller | None = None
        try:
            caller = await self._proven_caller(method, needed, context)
            if caller is ANYBODY:
                return caller
            if caller is REMOVED_NODE:
                set_present_caller(caller)
                return caller
            if needed is None:
                raise PermissionDeniedError(f"no client may call {method}")
            for right in needed.rights(request, self._topic_name):
                self._authorizer.check(caller, right.action, right.resource, right.topic_id)
        except LedgerError as error:
            await self._refuse(method, caller, needed, request, error, context)
            raise AssertionError("abort always raises") from error
        set_present_caller(caller)
        return caller

    async def _proven_caller(self, method: str, needed: Needed | None, context: Context) -> Caller:
        """Return the caller as the metadata of the call proves it, or ANYBODY if the method asks for no rights. Raises
        LedgerError."""
        if self._everybody is not None and needed is not None and needed.nodes != "only":
            return self._everybody
        if needed is not None:
            if not needed.proof:
                return ANYBODY
            if self._authentication and (header := header_of(context)):
                if not needed.may_be_forwarded or needed.nodes == "only":
                    raise PermissionDeniedError(f"no node may call {method} for a user")
                return await self._forwarded.caller(header, context)
            if (node := self._node(needed, context)) is not None:
                return node
            if not self._authentication and needed.nodes != "only":
                return ANYBODY
            if needed.nodes == "only":
                raise PermissionDeniedError(f"only nodes of this cluster may call {method}")
        caller = self._caller(context)
        self._authorizer.check_caller(caller)
        return caller

    def _node(self, needed: Needed, context: Context) -> Caller | None:
        """Return the caller if it is a node that may call the method, else None."""
        if needed.nodes == "no":
            return None
        if not self._proofs.are_needed:
            return None if self._authentication else ANYBODY
        node = self._proofs.node_of(context)
        if node == 0:
            return None
        if self._replicas.lists_node(node):
            return ANYBODY
        return REMOVED_NODE if needed.nodes == "too" else None

    def _caller(self, context: Context) -> Caller:
        """Return the proven caller. Raises AuthenticationError."""
        token = ""
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                token = str(value).removeprefix(_BEARER)
        caller = self._sessions.caller(token, context.peer()) if token else None
        if caller is None:
            raise AuthenticationError(UNPROVEN)
        return caller

    def _topic_name(self, topic_id: int) -> str:
        topic = self._replicas.topic(topic_id)
        return "" if topic is None else topic.name

    async def _refuse(
        self,
        method: str,
        caller: Caller | None,
        needed: Needed | None,
        request: Any,
        error: LedgerError,
        context: Context,
    ) -> None:
        self._refused_log.warning("refused %s to %s: %s", method, caller or context.peer(), error)
        if caller is not None and needed is not None and needed.is_audited:
            self._audit.record_refused(caller, context.peer(), method, request, str(error))
        match error:
            case AuthenticationError():
                code = grpc.StatusCode.UNAUTHENTICATED
            case PermissionDeniedError():
                code = grpc.StatusCode.PERMISSION_DENIED
            case _:
                code = grpc.StatusCode.UNAVAILABLE
        await context.abort(code, str(error))

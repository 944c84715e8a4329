"""Checks the callers of the HTTP port, as `RightsGuard` checks the callers of gRPC.

    /healthz, /readyz,
    /readyz/writes             every caller
    /metrics                   `describe` on the cluster
    /shards, /shards/N/...     `read-log` on the cluster; shard 0 holds users and topics, so it needs `administer`
    /, /console/...            checked by the console itself (cluster/console/logins.py)
    every other path           no caller

A caller proves itself with `Authorization: Bearer TOKEN`, where TOKEN is a delegated token, or with `Authorization:
Basic` and its user and password.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from aiohttp import web
from scramp import ScramException

from cluster.console.console import is_of_console
from ledger.access.mechanism import MECHANISM
from ledger.access.password import Verifier
from ledger.access.rules import CLUSTER, Action
from ledger.broker.access.audit import AuditLog
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.access.proofs import REFUSED, prove_token, user_to_prove
from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError, UnavailableError
from ledger.state.access_table import User
from ledger.topics import TOPICS_SHARD
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Reading the log's bytes is an act that the audit log records. A scrape of the metrics is not.
AUDITED: tuple[Action, ...] = ("read-log", "administer")
FOR_EVERYBODY = ("/healthz", "/readyz", "/readyz/writes")
# Passwords that were found right, so that a scrape does not compute thousands of rounds each time.
MAX_KNOWN = 1_000
# Passwords that are computed at the same time, and callers that wait for it. Further callers are refused.
MAX_COMPUTED = 2
MAX_WAITING = 64
MAX_HEADER = 4_096
# Of a path in the log.
MAX_PATH = 200
WRONG_S = 0.5
# The name of the proven user who made a request.
CALLER = web.RequestKey("caller", str)


class HttpRights:
    def __init__(self, authorizer: Authorizer, now_ms: Callable[[], int], audit: AuditLog | None = None) -> None:
        self._authorizer = authorizer
        self._now_ms = now_ms
        self._computing = asyncio.Semaphore(MAX_COMPUTED)
        # The callers that wait for `_computing`.
        self._waiting = 0
        # A hash of (verifier, password) that was right. The most recently used last.
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._refused_log = RareLog(log)
        self._audit = audit or AuditLog()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run the handler if the caller has the right that the path needs."""
        if request.path in FOR_EVERYBODY or is_of_console(request.path):
            return await handler(request)
        caller: Caller | None = None
        action = action_of(request)
        try:
            caller = await self._caller(request)
            self._authorizer.check(caller, action, CLUSTER)
        except LedgerError as error:
            path = request.raw_path[:MAX_PATH]  # percent-encoded, so it is one line
            self._refused_log.warning("refused %s to %s: %s", path, request.remote, error)
            if caller is not None and action in AUDITED:
                self._audit.record_refused_path(caller, request.remote or "", request.raw_path, str(error))
            return refusal(error)
        request[CALLER] = f"user {caller.user}"
        if action in AUDITED:
            self._audit.record_path(caller, request.remote or "", request.raw_path)
        return await handler(request)

    async def _caller(self, request: web.Request) -> Caller:
        """Return the proven caller. Raises AuthenticationError and UnavailableError."""
        kind, _, proof = request.headers.get("Authorization", "")[:MAX_HEADER].partition(" ")
        access = self._authorizer.fresh_access()
        match kind.lower():
            case "bearer":
                if not proof.isascii():
                    raise AuthenticationError(REFUSED)  # bytes that are no text cannot be hashed
                return prove_token(proof.strip(), access, self._now_ms())
            case "basic":
                name, password = _basic(proof)
                user, verifier = user_to_prove(access, name)
                if await self._is_right(user, verifier, password) and user is not None:
                    return Caller(user.name, user.since)
                await asyncio.sleep(WRONG_S)
                raise AuthenticationError(REFUSED)
        raise AuthenticationError("the request has no Authorization header with Basic or Bearer")

    async def _is_right(self, user: User | None, verifier: Verifier, password: str) -> bool:
        """Return True if the verifier is the one of this password. Raises UnavailableError if too many callers wait."""
        key = hashlib.sha256(verifier.stored_key + password.encode()).digest()
        if key in self._known:
            self._known.move_to_end(key)
            return True
        if self._waiting >= MAX_WAITING:
            raise UnavailableError(f"{self._waiting} callers wait for the check of a password: try again shortly")
        self._waiting += 1
        try:
            async with self._computing:
                _, stored_key, _, _ = await asyncio.to_thread(
                    MECHANISM.make_auth_info, password, verifier.iterations, verifier.salt
                )
        except ScramException:
            return False  # no password has these characters
        finally:
            self._waiting -= 1
        if not hmac.compare_digest(stored_key, verifier.stored_key) or user is None:
            return False
        self._known[key] = None
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return True


def action_of(request: web.Request) -> Action:
    """Return the action on the cluster that the path needs."""
    if request.path == "/metrics":
        return "describe"
    shard = request.match_info.get("shard", "0")
    if request.path == "/shards" or (shard.isdecimal() and int(shard) != TOPICS_SHARD):
        return "read-log"
    return "administer"


def refusal(error: LedgerError) -> web.Response:
    match error:
        case AuthenticationError():
            headers = {"WWW-Authenticate": 'Basic realm="ledgermq", charset="UTF-8"'}
            return web.json_response({"error": str(error)}, status=401, headers=headers)
        case PermissionDeniedError():
            return web.json_response({"error": str(error)}, status=403)
        case UnavailableError():
            return web.json_response({"error": str(error)}, status=503)
        case _:
            return web.json_response({"error": str(error)}, status=400)


def _basic(proof: str) -> tuple[str, str]:
    """Return user and password of a Basic proof. Raises AuthenticationError."""
    try:
        text = base64.b64decode(proof, validate=True).decode()
    except ValueError as error:  # no base64, no UTF-8, or bytes in the header that are not ASCII
        raise AuthenticationError(REFUSED) from error
    name, _, password = text.partition(":")
    return name, password

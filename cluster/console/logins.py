"""Who uses the console: logins, cookies, and the proof that a form comes from a page of the console.

    the user's name and password  ── SCRAM, as any client ──>  a delegated token, which lasts `LOGIN_MS`
    the token                     ── cookie ─────────────────>  every node of the cluster knows it, so the login
                                                                survives a restart of the node

Scripts cannot read the cookie (`HttpOnly`), and other sites cannot send it (`SameSite=Strict`). Each form also carries
a hash of the token, which another site cannot know. `ConsoleAccess` tells whether a token counts.

Without authentication there are no users. Then the console serves only callers of the same machine, and only with the
setting `console = "open"`. It checks the header `Host`, so that a page of another site cannot reach it by a name that
the site has bound to 127.0.0.1.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from ledger.access.rules import CLUSTER, Action, Kind, Resource, topic_resource
from ledger.broker.access.callers import ANYBODY, Caller
from ledger.errors import AuthenticationError, PermissionDeniedError

COOKIE = "ledgermq-console"
# The name of the form field with the proof.
PROOF_FIELD = "proof"
MAX_COOKIE_CHARACTERS = 512
# The logouts that a node remembers.
MAX_ENDED = 10_000
_ENDED = "This login has ended: log in again."


class ConsoleAccess(Protocol):
    """An interface: the users of the cluster, as this node knows them."""

    def prove(self, token: str) -> Caller:
        """Return who has this delegated token. Raises AuthenticationError, or UnavailableError."""

    def may(self, caller: Caller, action: Action, resource: Resource) -> bool:
        """Return whether the caller has a right. Raises AuthenticationError, or UnavailableError."""

    def may_somewhere(self, caller: Caller, action: Action, kind: Kind) -> bool:
        """Return whether a rule allows the action on some resource of this kind. Raises the same errors."""


@dataclass(frozen=True)
class Visitor:
    """The user of one request. `token` is the delegated token of the login, or "" without authentication."""

    caller: Caller
    token: str
    # What each form must carry.
    proof: str
    access: ConsoleAccess | None
    # The proofs of the logins that were ended at this node.
    ended: Container[str] = ()

    @property
    def name(self) -> str:
        return "" if self.access is None else self.caller.user

    def may(self, action: Action, resource: Resource = CLUSTER) -> bool:
        """Return whether the user has a right. Pages leave out what the user may not do. Raises AuthenticationError if
        the login has ended, also since the request began."""
        self._check_login()
        return self.access is None or self.access.may(self.caller, action, resource)

    def may_somewhere(self, action: Action, kind: Kind) -> bool:
        """Return whether the user has the right on some resource of this kind, such as topics whose names begin with
        "orders-". Raises as `may`."""
        self._check_login()
        return self.access is None or self.access.may_somewhere(self.caller, action, kind)

    def may_on_topic(self, action: Action, topic: str) -> bool:
        return self.may(action, topic_resource(topic))

    def may_on_group(self, action: Action, group: str) -> bool:
        return self.may(action, Resource("group", group))

    def _check_login(self) -> None:
        if self.proof in self.ended:
            raise AuthenticationError(_ENDED)


class Logins:
    """Finds the visitor of each request. Without `access`, every caller of this machine is the same visitor."""

    def __init__(self, access: ConsoleAccess | None) -> None:
        self._access = access
        self._open_proof = secrets.token_hex(16)
        # The proofs of logins that were ended at this node, the oldest first.
        self._ended: OrderedDict[str, None] = OrderedDict()

    @property
    def are_needed(self) -> bool:
        return self._access is not None

    def end(self, visitor: Visitor) -> None:
        """End a login at this node. The other nodes accept its cookie until the token ends."""
        self._ended[visitor.proof] = None
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def visitor(self, request: web.Request) -> Visitor:
        """Return the visitor of a request. Raises AuthenticationError if there is no login, or if it has ended,
        PermissionDeniedError, and UnavailableError if this node cannot know."""
        if self._access is None:
            _check_is_local(request)
            return Visitor(ANYBODY, "", self._open_proof, None)
        token = request.cookies.get(COOKIE, "")
        if not token or len(token) > MAX_COOKIE_CHARACTERS or not token.isascii():
            raise AuthenticationError("Log in to use the console.")
        proof = proof_of(token)
        if proof in self._ended:
            raise AuthenticationError(_ENDED)
        return Visitor(self._access.prove(token), token, proof, self._access, self._ended)


def proof_of(token: str) -> str:
    """Return what forms carry for a login. The token cannot be computed from it."""
    return hashlib.sha256(b"form of the console\0" + token.encode()).hexdigest()


def check_form(visitor: Visitor, request: web.Request, proof: str) -> None:
    """Raise PermissionDeniedError if a form does not come from a page that this visitor has loaded."""
    check_origin(request)
    if not hmac.compare_digest(proof.encode(), visitor.proof.encode()):
        raise PermissionDeniedError(
            "The form does not belong to this login. Load the page again, and repeat the action."
        )


def check_origin(request: web.Request) -> None:
    """Raise PermissionDeniedError if a page of another site has sent the form."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise PermissionDeniedError("Another site sent this form, so it was not accepted.")
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.host:
        raise PermissionDeniedError(f"A page of {origin[:100]} sent this form, so it was not accepted.")


def _check_is_local(request: web.Request) -> None:
    host = _host_of(request.host)
    if not (is_loopback(host) and is_loopback(request.remote or "")):
        raise PermissionDeniedError(
            "This cluster has no authentication, so its console serves only browsers on the same machine, under the "
            "names localhost and 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(host: str) -> str:
    """Return the host of a header `Host`, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host

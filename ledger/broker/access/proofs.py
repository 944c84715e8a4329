"""Proves who a caller is: by a password (SCRAM-SHA-256), a delegated token, or a client certificate.

All refusals have the same text, so they do not tell whether a user exists. An unknown user seems to have a password: it
gets the salt that it would always get, and its proof fails.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from urllib.parse import quote

from scramp import ScramException

from ledger.access.mechanism import MECHANISM
from ledger.access.password import ITERATIONS, KEY_BYTES, Verifier
from ledger.broker.access.callers import Caller
from ledger.errors import AuthenticationError
from ledger.state.access_table import AccessTable, User

REFUSED = "the user or the password is wrong, or the user has no password"
# The longest message of a client in one step.
MAX_MESSAGE_CHARACTERS = 4_096
NONCE_BYTES = 32


class PasswordProof:
    """The server's side of one SCRAM exchange."""

    def __init__(self, access: AccessTable, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._access = access
        self._user: User | None = None
        self._server = MECHANISM.make_server(self._verifier, s_nonce=token_text(random_bytes(NONCE_BYTES)))

    def first(self, message: str) -> str:
        """Return the answer to the client's first message. Raises AuthenticationError."""
        with _Refusing():
            self._server.set_client_first(_checked(message))
            return str(self._server.get_server_first())

    def final(self, message: str) -> tuple[Caller, str]:
        """Return the proven caller, and the answer to the client's final message. Raises AuthenticationError."""
        with _Refusing():
            self._server.set_client_final(_checked(message))
            answer = str(self._server.get_server_final())
        if self._user is None:
            raise AuthenticationError(REFUSED)
        return Caller(self._user.name, self._user.since), answer

    def _verifier(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._user, verifier = user_to_prove(self._access, name)
        return verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations


def user_to_prove(access: AccessTable, name: str) -> tuple[User | None, Verifier]:
    """Return the user with its verifier. A user that is unknown, or that has no password, gets None and the verifier of
    a password that nobody has. So answers and their times do not tell which users exist."""
    user = access.users.get(name)
    if user is not None and user.verifier is not None:
        return user, user.verifier
    salt, stored, server = (_derived(access.salt_key, purpose, name) for purpose in ("salt", "stored", "server"))
    return None, Verifier(salt, ITERATIONS, stored, server)


def prove_token(token: str, access: AccessTable, now_ms: int) -> Caller:
    """Return the caller of a delegated token. Raises AuthenticationError."""
    known = access.tokens.get(digest_of(token))
    user = access.users.get(known.user) if known is not None else None
    if known is None or user is None or user.since != known.since or known.expires_ms <= now_ms:
        raise AuthenticationError("the delegated token is unknown, or it has ended: ask for a new one")
    return Caller(known.user, known.since, known)


def prove_certificate(uris: list[str], cluster: str, access: AccessTable) -> Caller:
    """Return the caller that a verified client certificate names. `uris` are the URIs in the certificate. Raises
    AuthenticationError."""
    prefix = f"ledgermq://{quote(cluster, safe='')}/user/"
    names = [uri.removeprefix(prefix) for uri in uris if uri.startswith(prefix)]
    user = access.users.get(names[0]) if len(names) == 1 else None
    if user is None:
        raise AuthenticationError(
            f"the connection has no client certificate of a user of this cluster: it needs one URI {prefix}NAME"
        )
    return Caller(user.name, user.since)


def token_text(secret: bytes) -> str:
    """Return random bytes as text of the characters A-Z a-z 0-9 _ and -."""
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def digest_of(token: str) -> bytes:
    """Return what the cluster stores in place of a delegated token."""
    return hashlib.sha256(token.encode()).digest()


class _Refusing:
    """A context manager that turns errors of SCRAM into AuthenticationError, always with the same text."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # Base64, UTF-8 and numbers in a hostile message raise ValueError, also as its subclasses.
        if isinstance(error, ScramException | ValueError | TypeError | IndexError | KeyError):
            raise AuthenticationError(REFUSED) from error


def _checked(message: str) -> str:
    if len(message) > MAX_MESSAGE_CHARACTERS:
        raise AuthenticationError(REFUSED)
    return message


def _derived(key: bytes, purpose: str, name: str) -> bytes:
    return hmac.new(key, f"{purpose}\0{name}".encode(), hashlib.sha256).digest()[:KEY_BYTES]

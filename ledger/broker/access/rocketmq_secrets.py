"""RocketMQ secrets of users: makes them, removes them, and proves a caller by the signature of a RocketMQ client.

RocketMQ's signature needs the clear secret on the node. So this secret is never the user's password: a node generates
it, the log stores it encrypted, and the key is in a file outside the log (the setting `secrets_key_file`). Whoever
reads the log alone learns nothing. A new password of the user ends the secret.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from ledger.access.rocketmq import REFUSED, is_signed, read_signature
from ledger.broker.access.callers import Caller
from ledger.broker.access.users import Users
from ledger.errors import AuthenticationError, InvalidArgumentError
from ledger.state.access_table import AccessTable
from ledger.state.commands import SetRocketmqSecret

SECRET_BYTES = 30


class SecretKeys(Protocol):
    """Encrypts short secrets, and decrypts them, with keys that all nodes of the cluster share outside the log."""

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        """Return `content` encrypted with the first key. Only the same `context` decrypts it."""

    def decrypt(self, encrypted: bytes, context: bytes) -> bytes | None:
        """Return the content, or None if no key of this node decrypts it for this context."""


class RocketmqSecrets:
    """Without TLS or without `keys`, users cannot have RocketMQ secrets."""

    def __init__(self, cluster: str, users: Users, keys: SecretKeys | None, *, has_tls: bool) -> None:
        self._cluster = cluster
        self._users = users
        self._keys = keys
        self._has_tls = has_tls

    async def make(self, name: str) -> str:
        """Give the user a new secret in place of an earlier one, and return it. The cluster cannot show it again.
        Raises InvalidArgumentError if the node's settings do not allow it, and UnknownUserError."""
        if not self._has_tls:
            raise InvalidArgumentError(
                "RocketMQ secrets are accepted only over TLS, because whoever sees a signature can repeat it: set "
                "`tls_certificate`, `tls_key` and `tls_ca`"
            )
        if self._keys is None:
            raise InvalidArgumentError(
                "this node has no key for RocketMQ secrets: make one with `ledgermq cluster init`, and set "
                "`secrets_key_file` on all nodes"
            )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        encrypted = self._keys.encrypt(secret.encode(), context_of(self._cluster, name))
        await self._users.change(SetRocketmqSecret(name, encrypted))
        return secret

    async def remove(self, name: str) -> None:
        """Raises UnknownUserError."""
        await self._users.change(SetRocketmqSecret(name, b""))

    def prove(
        self,
        authorization: str,
        date: str,
        access: AccessTable,
        now_ms: int,
        *,
        is_tls: bool,
        utc_offsets_s: Sequence[int] = (0,),
    ) -> Caller:
        """Return the user who signed the date, from the headers `authorization` and `x-mq-date-time` of a call.
        `utc_offsets_s` lists the offsets of clients that write their local time as if it were UTC. Raises
        AuthenticationError, always with the same text."""
        signature = read_signature(authorization)
        user = access.users.get(signature.access_key)
        secret = self._secret_of(signature.access_key, user.rocketmq_secret if user is not None else b"")
        # The signature of a user without a secret is compared too, so the time does not tell whether the user exists.
        right = is_signed(signature, date, secret or secrets.token_urlsafe(SECRET_BYTES), now_ms, utc_offsets_s)
        if user is None or not secret or not right or not is_tls:
            raise AuthenticationError(REFUSED)
        return Caller(user.name, user.since)

    def _secret_of(self, name: str, encrypted: bytes) -> str:
        if not encrypted or self._keys is None:
            return ""
        content = self._keys.decrypt(encrypted, context_of(self._cluster, name))
        return content.decode("ascii", "replace") if content is not None else ""


def context_of(cluster: str, name: str) -> bytes:
    """Return what binds an encrypted secret to its user, so that nobody can give it to another user."""
    return f"ledgermq rocketmq secret 1\0{cluster}\0{name}".encode()

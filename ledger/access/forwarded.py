"""The user for whom a node calls another node: a header in the metadata of the call.

A node that serves a protocol of its own, such as RocketMQ's, passes requests on to the leaders of shards. The calls
prove which node calls, and this header names the user. The called node decides about the user's rights by itself. It
believes the header only if the caller has proven that it is a node of the cluster.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from ledger.access.rules import validate_user_name
from ledger.errors import InvalidArgumentError
from ledger.v1 import security_pb2

CALLER_KEY = "ledgermq-caller"
DIGEST_BYTES = 32
_MAX_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class ForwardedCaller:
    """`since` is the index of the entry that made the user's present password. `token` is the SHA-256 of the delegated
    token with which the user proved itself, or empty. `policy_index` is the entry of shard 0 by which the calling node
    has decided."""

    user: str
    since: int
    token: bytes
    policy_index: int

    def header(self) -> str:
        """Return the value of the header."""
        named = security_pb2.ForwardedCaller(
            user=self.user, since=self.since, token=self.token, policy_index=self.policy_index
        )
        return base64.urlsafe_b64encode(named.SerializeToString()).decode()

    @staticmethod
    def of_header(text: str) -> ForwardedCaller:
        """Return what `header` returned. Raises InvalidArgumentError for any other text."""
        try:
            if len(text) > _MAX_CHARACTERS:
                raise InvalidArgumentError("it is too long")
            named = security_pb2.ForwardedCaller.FromString(base64.b64decode(text, altchars=b"-_", validate=True))
            validate_user_name(named.user)
            if len(named.token) not in (0, DIGEST_BYTES):
                raise InvalidArgumentError("the token has the wrong length")
        except (binascii.Error, DecodeError, ValueError) as error:
            raise InvalidArgumentError(f"the name of the forwarded caller cannot be read: {error}") from error
        return ForwardedCaller(named.user, named.since, named.token, named.policy_index)

"""Verifies the signature by which RocketMQ's clients prove who they are.

    authorization     MQv2-HMAC-SHA1 Credential=ACCESS_KEY/..., SignedHeaders=x-mq-date-time, Signature=HEX
    x-mq-date-time    20260102T030405Z, or 2026-01-02T03:04:05.678+00:00

The signature is an HMAC-SHA1 over the text of the date only. It says nothing about the request or the connection, so
whoever has seen it can repeat it. Therefore a node accepts it only over TLS, and only within five minutes of its date.
The access key is the name of the user. The module is pure, and the caller gives the time.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ledger.errors import AuthenticationError

SCHEME = "MQv2-HMAC-SHA1"
DATE_HEADER = "x-mq-date-time"
# How far the date may be from the node's clock, in both directions.
WINDOW_S = 300
MAX_HEADER_CHARACTERS = 1_024
# One text for all refusals, so that a refusal does not tell which users exist, or what was wrong.
REFUSED = "the access key, its secret or the date of the signature is wrong"

_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
# As RocketMQ's client for Rust writes it.
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_ISO_FRACTION = re.compile(r"(\.\d{1,6})\d*")
_SIGNATURE = re.compile(r"[0-9A-Fa-f]{40}", re.ASCII)


class RocketmqSignature(NamedTuple):
    """What a header says. `digest` has 20 bytes."""

    access_key: str
    digest: bytes


def read_signature(authorization: str) -> RocketmqSignature:
    """Return what the header `authorization` says. Raises AuthenticationError if it is no signature of RocketMQ."""
    scheme, _, rest = authorization.strip().partition(" ")
    if len(authorization) > MAX_HEADER_CHARACTERS or scheme != SCHEME:
        raise AuthenticationError(REFUSED)
    fields: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in fields:
            raise AuthenticationError(REFUSED)
        fields[name] = value.strip()
    access_key = fields.get("Credential", "").partition("/")[0]
    signature = fields.get("Signature", "")
    if not access_key or fields.get("SignedHeaders") != DATE_HEADER or not _SIGNATURE.fullmatch(signature):
        raise AuthenticationError(REFUSED)
    return RocketmqSignature(access_key, bytes.fromhex(signature))


def sign_date(secret: str, date: str) -> bytes:
    """Return the 20 bytes by which a client that knows the secret signs a date."""
    return hmac.new(secret.encode(), date.encode(), "sha1").digest()


def is_signed(
    signature: RocketmqSignature, date: str, secret: str, now_ms: int, utc_offsets_s: Sequence[int] = (0,)
) -> bool:
    """Return True if the signature is by this secret, and if its date is within `WINDOW_S` s of now.

    Several official clients write their local time as if it were UTC. `utc_offsets_s` lists the offsets from UTC, in s,
    at which clients may do so; each offset adds a time at which a signature that somebody copied is accepted again.
    """
    right = hmac.compare_digest(signature.digest, sign_date(secret, date))
    return _is_near(date, now_ms, utc_offsets_s) and right


def _is_near(date: str, now_ms: int, utc_offsets_s: Sequence[int]) -> bool:
    try:
        if _DATE.fullmatch(date):
            told_s = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        elif _ISO_DATE.fullmatch(date):  # it names its offset from UTC
            told_s = datetime.fromisoformat(_ISO_FRACTION.sub(r"\1", date)).timestamp()
            return abs(told_s - now_ms / 1000) <= WINDOW_S
        else:
            return False
    except (ValueError, OverflowError):
        return False
    return any(abs(told_s - offset_s - now_ms / 1000) <= WINDOW_S for offset_s in utc_offsets_s)

"""What the cluster stores in place of a password, and the server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677).

A `Verifier` proves that a client knows the password. The password cannot be read from the verifier, only guessed. The
client makes the verifier of a new password itself, so no node ever receives a password. The library `scramp` does the
arithmetic of SCRAM.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import InvalidArgumentError

NEEDS_SCRAMP = "needs the package scramp: run pip install 'ledgermq[password]'."

# A client computes this many rounds once for each password; a node computes none. About 10 ms.
ITERATIONS = 20_000
MIN_ITERATIONS = 4_096
# A node computes them for a password over HTTP, so they are bounded. About 50 ms.
MAX_ITERATIONS = 100_000
KEY_BYTES = 32
SALT_BYTES = 32
MIN_SALT_BYTES = 12
MAX_SALT_BYTES = 64
MIN_PASSWORD_LENGTH = 8
MAX_PASSWORD_LENGTH = 1_024


@dataclass(frozen=True, slots=True)
class Verifier:
    """Proves knowledge of a password. The two keys have 32 bytes."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"Verifier(iterations={self.iterations})"  # the keys are secrets


def make_verifier(password: str, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> Verifier:
    """Return the verifier of a password, with a new salt. Raises InvalidArgumentError if the password is too short or
    too long, or has characters that SCRAM forbids."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise InvalidArgumentError(
            f"A password needs {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters; this one has {len(password)}."
        )
    try:
        from ledger.access.mechanism import MECHANISM, ScramException  # only who makes a verifier needs scramp
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"A password {NEEDS_SCRAMP}") from error
    try:
        made = MECHANISM.make_auth_info(password, ITERATIONS, random_bytes(SALT_BYTES))
    except ScramException as error:
        raise InvalidArgumentError(
            f"The password has characters that no password may have ({str(error).partition(':')[0]}). Choose another "
            "password."
        ) from error
    salt, stored_key, server_key, iterations = made
    return Verifier(bytes(salt), int(iterations), stored_key, server_key)


def validate_verifier(verifier: Verifier) -> None:
    """Raise InvalidArgumentError if no password has this verifier."""
    keys = (len(verifier.stored_key), len(verifier.server_key))
    if keys != (KEY_BYTES, KEY_BYTES):
        raise InvalidArgumentError(f"The keys of a verifier need {KEY_BYTES} bytes each, and not {keys}.")
    if not MIN_SALT_BYTES <= len(verifier.salt) <= MAX_SALT_BYTES:
        raise InvalidArgumentError(
            f"The salt of a verifier needs {MIN_SALT_BYTES} to {MAX_SALT_BYTES} bytes, and not {len(verifier.salt)}."
        )
    if not MIN_ITERATIONS <= verifier.iterations <= MAX_ITERATIONS:
        raise InvalidArgumentError(
            f"A verifier needs {MIN_ITERATIONS:,} to {MAX_ITERATIONS:,} iterations, and not {verifier.iterations:,}."
        )

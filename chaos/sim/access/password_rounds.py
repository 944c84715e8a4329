"""Computes the thousands of rounds of a password once in a process.

Clients of a simulated world prove the same password hundreds of times, and the rounds took a fifth of the CPU time of a
run with users. The result depends only on the arguments, so a run is the same with and without this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_remembered = lru_cache(maxsize=1_000)(hashlib.pbkdf2_hmac)


@contextmanager
def remembered_rounds() -> Iterator[None]:
    """While the body of the `with` block runs, `hashlib.pbkdf2_hmac` returns results of earlier calls with the same
    arguments. The library `scramp` calls it for SCRAM."""
    before = hashlib.pbkdf2_hmac
    hashlib.pbkdf2_hmac = _remembered  # type: ignore[assignment]
    try:
        yield
    finally:
        hashlib.pbkdf2_hmac = before

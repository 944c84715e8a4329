"""The limits of shared consumer groups, which clients and brokers check."""

from __future__ import annotations

from ledger.errors import InvalidArgumentError

# A lease of a message, and a delay after which it is handed out again.
MIN_LEASE_MS = 1_000
MAX_LEASE_MS = 12 * 3_600_000
DEFAULT_LEASE_MS = 30_000
# What one receive can get. One message more is handed out if it is larger than the bytes.
MAX_RECEIVED = 1_000
MAX_RECEIVED_BYTES = 4 << 20
# The text of a filter.
MAX_FILTER_CHARACTERS = 4_096
# The longest time that a receive waits at a broker.
MAX_WAIT_MS = 60_000


def validate_lease(lease_ms: int) -> None:
    """Raise InvalidArgumentError if a lease cannot have this length."""
    if not MIN_LEASE_MS <= lease_ms <= MAX_LEASE_MS:
        raise InvalidArgumentError(
            f"A lease cannot last {lease_ms} ms: choose {MIN_LEASE_MS} to {MAX_LEASE_MS} ms (12 hours)."
        )

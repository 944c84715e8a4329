"""The filter of a simulated shared group: as its members write it, and as a function that knows nothing of filters."""

from __future__ import annotations

from collections.abc import Sequence

WHERE = "TAGS IS NULL OR KEYS CONTAINS '1'"


def is_wanted(tag: str | None, look_up_keys: Sequence[bytes]) -> bool:
    """Return whether the filter is true for a message."""
    return tag is None or any(b"1" in key for key in look_up_keys)

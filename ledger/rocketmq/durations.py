"""Reads durations and times that clients send, and writes times. All may have any value."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.calendar import LATEST_MS, dated_ms

# The bound of the type Duration.
_MAX_S = 315_576_000_000
# The bound of the type Timestamp: the last second of the year 9999.
LATEST_S = LATEST_MS // 1000
_NANOS = 1_000_000_000


def milliseconds(duration: Duration) -> int:
    """Return the length of a duration, or -1 if it is negative or out of the bounds of its type."""
    seconds, nanos = duration.seconds, duration.nanos
    if not 0 <= seconds <= _MAX_S or not 0 <= nanos < _NANOS:
        return -1
    return int(seconds * 1000 + nanos // 1_000_000)


def time_ms(told: Timestamp) -> int | None:
    """Return a time in ms since 1970, or None if it is before 1970 or out of the bounds of its type."""
    if not 0 <= told.seconds <= LATEST_S or not 0 <= told.nanos < _NANOS:
        return None
    return int(told.seconds * 1000 + told.nanos // 1_000_000)


def timestamp(ms: int) -> Timestamp:
    """Return a time in ms since 1970, or the nearest one that the type Timestamp has."""
    found = Timestamp()
    found.FromMilliseconds(dated_ms(ms))
    return found
